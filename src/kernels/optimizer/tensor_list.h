// The list of tensors that a multi-tensor kernel processes in one call, and the division of its elements into tasks
// for threads. The list does not own memory: views are used only during the call. Thread-safe: values only.
//
// The division depends only on the sizes, not on the number of threads, so that sums are the same for any
// number of threads. If a tensor is divided between tasks, the limits are multiples of kTensorGrain elements, so
// that tasks start at cache lines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/philox.h"
#include "base/view.h"
#include "device/cpu/parallel.h"

namespace plimsoll {

// One parameter with its gradient and optimizer states. A kernel states which fields it uses; the others may be null. Parameters have one
// of three formats. 1. In fp32, optionally with a 16-bit copy for matrix products. 2. Split: param is the bf16 number that matrix products
// read, and param and remainder together are the fp32 parameter (base/split_f32.h); an update joins them, computes in fp32 and splits the
// result. 3. Only in bf16, without a remainder: an update computes in fp32 and rounds the result by round_stochastically, with the random
// number random_half({noise_seed, step, noise_site + k}, first + i) for element i of tensor k of the list.
struct OptimizerTensor {
  View param = {};
  ConstView grad = {};
  View m = {};        // AdamW's first moment, SGD's and Lion's momentum, Adagrad's sum of squares
  View v = {};        // the second moment of AdamW
  int64_t count = 0;  // number of elements of each view
  // The index, within the parameter, of the first element of these views. It is not 0 if a call updates only a range of a parameter. The
  // random numbers are derived from it. It is a multiple of 4, unless a parameter consists of several tensors of a checkpoint.
  int64_t first = 0;
  // The largest magnitude of each quantization block, if m or v is in 8 bits (eight_bit.h).
  View m_absmax = {};
  View v_absmax = {};
  // A 16-bit copy of param that matrix products read, or null. A bf16 copy is rounded to nearest with ties away from zero, like the bf16
  // half of a split parameter; an f16 copy is rounded to nearest with ties to even.
  View low = {};
  // The lower 16 bits of each element of a split parameter, stored as two bytes of type u8. Null if param is not split.
  View remainder = {};
};

// States which of the optimizer states m and v an update reads and writes.
enum class UpdateStates : uint8_t { kNone, kM, kMAndV };
constexpr bool has_m(UpdateStates states) {
  return states != UpdateStates::kNone;
}
constexpr bool has_v(UpdateStates states) {
  return states == UpdateStates::kMAndV;
}

// Returns false if the flag `finite` is present and 0, because an update must not change anything then.
inline bool update_allowed(ConstView finite) {
  return !finite || finite.load(0) != 0.0;
}

// Returns true if the parameter is stored only in bf16, without a remainder.
inline bool rounds_stochastically(const OptimizerTensor& tensor) {
  return tensor.param.dtype == DType::kBF16 && !tensor.remainder;
}
// Returns the key from which the random numbers of tensor k of the list are derived. The key contains a seed, the step, and a site, which
// is a number that differs between the parameters of a model. Args is the type of the arguments of an update, with the fields step,
// noise_seed and noise_site.
template <typename Args>
RandomSite noise_of(const Args& args, size_t k) {
  return {.seed = args.noise_seed,
          .step = args.step ? static_cast<uint32_t>(args.step.template as<int64_t>()[0]) : 0,
          .site = args.noise_site + static_cast<uint32_t>(k)};
}
// The random numbers of a second moment have a different key from those of its parameter: this number is added to the site, which is a part
// of the key. Requires: the sites of all parameters are smaller than this number.
inline constexpr uint32_t kSecondMomentSites = 1u << 31;
inline RandomSite noise_of_second_moment(RandomSite noise) {
  noise.site += kSecondMomentSites;
  return noise;
}

// If a tensor is divided between tasks, each task begins at a multiple of this number of elements.
inline constexpr int64_t kTensorGrain = 1024;
// Number of elements per task. Tasks are longer if the list has more than kMaxTensorTasks times as many elements.
inline constexpr int64_t kTensorTaskElements = 16384;
inline constexpr int64_t kMaxTensorTasks = 256;

// Returns a bound on the relative difference between two sums of the squares of n fp32 numbers, both computed in double: that of a kernel
// and that of the reference. The reference adds the squares in sequence, with n roundings of 2^-53; a kernel adds them by grains and tasks,
// with fewer roundings. The norm is the square root of the sum, so its relative difference is half as large.
constexpr double square_sum_error(int64_t n) {
  return 0x1p-53 * (static_cast<double>(n) + 4.0);
}

constexpr int64_t tensor_grains(int64_t count) {
  return (count + kTensorGrain - 1) / kTensorGrain;
}

inline int64_t total_grains(std::span<const OptimizerTensor> tensors) {
  int64_t grains = 0;
  for (const OptimizerTensor& tensor : tensors) grains += tensor_grains(tensor.count);
  return grains;
}

// Returns the number of tasks into which the list is divided; 0 for an empty list.
inline int64_t num_tensor_tasks(std::span<const OptimizerTensor> tensors) {
  const int64_t grains_per_task = kTensorTaskElements / kTensorGrain;
  return std::min(kMaxTensorTasks, (total_grains(tensors) + grains_per_task - 1) / grains_per_task);
}

// Calls body(task, tensor index, first element, element count) for every contiguous range of a tensor, in order within a task; tasks run on
// all threads. Requires: body does not throw.
template <typename Body>
void parallel_over_tensors(std::span<const OptimizerTensor> tensors, Body&& body) {
  const int64_t grains = total_grains(tensors);
  const int64_t tasks = num_tensor_tasks(tensors);
  parallel_for(tasks, [&](int64_t task, int /*thread*/) {
    const int64_t first = grains * task / tasks;
    const int64_t last = grains * (task + 1) / tasks;
    int64_t base = 0;
    for (size_t i = 0; i < tensors.size() && base < last; ++i) {
      const int64_t end = base + tensor_grains(tensors[i].count);
      if (end > first) {
        const int64_t begin_element = (std::max(first, base) - base) * kTensorGrain;
        const int64_t end_element = std::min((std::min(last, end) - base) * kTensorGrain, tensors[i].count);
        if (end_element > begin_element) body(task, i, begin_element, end_element - begin_element);
      }
      base = end;
    }
  });
}

}  // namespace plimsoll
