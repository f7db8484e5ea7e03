// This header states the contract of Adafactor over a list of tensors in one call. A call serves one parameter group, because it has one
// weight decay. Thread-safe: the kernels keep no state. Views are used only during the call.
//
// Formula, per tensor of n elements, with g' = clip_coefficient * g, t = step (1 for the first update) and
// b = 1 - t^decay_rate:
//   a matrix of R rows and C columns (row_R and column_C are its states):
//     row_i <- b row_i + (1 - b) (mean_j g'_ij^2 + epsilon1)    column_j <- the same over i
//     u_ij = g'_ij / (sqrt(row_i / mean(row)) sqrt(column_j))
//   a vector (v_n is its state):
//     v_i <- b v_i + (1 - b) (g'_i^2 + epsilon1)                u_i = g'_i / sqrt(v_i)
//   then for both, with rms(x) = sqrt(mean(x^2)) and a = lr max(epsilon2, rms(p)), or a = lr if the rate is not
//   scaled by the parameter:
//     u <- a u / max(1, rms(u) / clip_threshold);  with beta1: m <- beta1 m + (1 - beta1) u, and u = m
//     p <- p - a weight_decay p - u
// Source: Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost" (arXiv
// 1804.04235), in the form of transformers.optimization.Adafactor. The caller computes the step-dependent rate
// of relative_step. If finite is 0, nothing is updated.
// Types: the references take any floating type. The CPU kernels take states in f32, gradients in f32, bf16 or
// f16, and parameters in f32, or stored only in bf16 and then rounded stochastically (tensor_list.h). The
// scalars have the types that adamw.h states. Accumulation: squares in fp32 over tiles of kAdafactorTileRows
// rows and kAdafactorTileColumns columns (a vector is one row); the sums of tiles in double, in order; b, a and
// 1 / max(...) in double, rounded to fp32 once. The mean of g'^2 + epsilon1 is computed as the mean of g'^2,
// plus epsilon1. Special values: without `finite`, a NaN gradient makes its whole tensor NaN. Aliasing: no
// tensor overlaps another.
// Scratch: adafactor_scratch_bytes (optimizer_catalog.h) per tensor, aligned to 16; the references need none.
// Repeatability: the same bits for any number of threads. Error: adafactor_error_bound below, per element and
// step. Cost: reads g three times and p once, writes p: 20 bytes per parameter in f32 (4 more to scale by p,
// 8 more with beta1); 14 FLOPs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/optimizer/optimizer_catalog.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

struct AdafactorTensor {
  View param = {};
  ConstView grad = {};
  View row = {};     // row state of a matrix; null if the tensor is a vector
  View column = {};  // column state of a matrix
  View v = {};       // state of a vector
  View m = {};       // first moment, if beta1 is used
  // 16-bit copy of param for matrix products, rounded like OptimizerTensor::low; null if there is none
  View low = {};
  int64_t rows = 1;  // number of rows; a vector has one row
  int64_t columns = 0;
  int64_t first = 0;  // index of the tensor's first element within its parameter

  bool is_matrix() const { return row.data != nullptr; }
  int64_t count() const { return rows * columns; }
  // Returns the parameter in the form that the functions for all optimizers take, without its gradient and optimizer states.
  OptimizerTensor parameter() const { return {.param = param, .count = count(), .first = first, .low = low}; }
};

enum class ScaleByParameter : uint8_t { kNo, kYes };

struct AdafactorArgs {
  std::span<const AdafactorTensor> tensors = {};
  ConstView learning_rate = {};     // one element: the learning rate of this step
  ConstView step = {};              // one i64 element: the step number, 1 for the first update
  ConstView clip_coefficient = {};  // optional, one element: the factor of all gradients (1 if absent)
  ConstView finite = {};            // optional, one element: the finite flag; if it is 0, nothing is updated
  double epsilon1 = 1e-30;
  double epsilon2 = 1e-3;
  double clip_threshold = 1.0;  // the clipping threshold must be positive
  double decay_rate = -0.8;     // the exponent of the decay must be negative
  std::optional<double> beta1 = {};
  double weight_decay = 0.0;
  ScaleByParameter scale_by_parameter = ScaleByParameter::kNo;
  // Parts of the key from which the random numbers for rounding parameters that are stored only in bf16 are derived (noise_of() in
  // tensor_list.h): the seed, and the site of the first tensor of the list. A site is a number that differs between parameters.
  uint64_t noise_seed = 0;
  uint32_t noise_site = 0;
  View scratch = {};  // scratch memory for all tensors, one after the other

  // Calls read(name, field) for each constant of the update. `name` is the name of the attribute in which the graph's op stores the
  // constant. A negative beta1 means that the optimizer keeps no first moment.
  template <typename Read>
  void read_constants(const Read& read) {
    read("epsilon1", epsilon1);
    read("epsilon2", epsilon2);
    read("clip_threshold", clip_threshold);
    read("decay_rate", decay_rate);
    read("beta1", beta1);
    read("weight_decay", weight_decay);
    read("scale_parameter", scale_by_parameter);
  }
};

// Returns 1 - b, the weight of the new squared gradients in the states (b is defined in the formula above). Errors: kInternal for a step
// below 1.
double adafactor_new_share(const AdafactorArgs& args);
// Returns the learning rate, called `a` in the formula above, of a parameter whose root mean square is param_rms.
double adafactor_rate(const AdafactorArgs& args, double param_rms);

// Error bounds for one update of a tensor in fp32 that starts from the same values as the exact update, with u = 2^-24. row, column, v and
// step are relative errors of the states and of the step of an element. param() returns the bound on the absolute error of an element p
// that changes by step_size, including the weight decay.
struct AdafactorErrorBound {
  double row, column, v, step;
  double param(double p, double step_size) const {
    return 0x1p-24 * (std::fabs(p) + step_size) + step * step_size;
  }
};
inline AdafactorErrorBound adafactor_error_bound(int64_t rows, int64_t columns) {
  constexpr double kU = 0x1p-24;
  const auto chain = [](int64_t n, int64_t tile) { return static_cast<double>(std::min(n, tile)); };
  const double across = chain(columns, kAdafactorTileColumns);
  const double down = chain(rows, kAdafactorTileRows);
  AdafactorErrorBound bound{};
  // The squared gradient contains g' twice. Each g' has the rounding errors of the clip coefficient and of its product with g, which makes
  // 4 roundings. Further roundings are those of the square, the sum of positive terms, the mean, two coefficients, their products and the
  // sum of the state.
  bound.row = (across + 12.0) * kU;
  bound.column = (down + 12.0) * kU;
  bound.v = 12.0 * kU;
  // A square root halves the relative errors of its argument: of the row state divided by the mean of all row states (whose error is that
  // of a row), and of the column state. Roots, quotients and products add 12 u. The root mean square of the update has the error of the
  // update plus that of the sums over a row; the same holds for the root mean square of the parameter.
  const double u = std::max(bound.row + 0.5 * bound.column, 0.5 * bound.v) + 12.0 * kU;
  bound.step = 2.0 * u + (across + 12.0) * kU;
  return bound;
}

void adafactor_ref(const AdafactorArgs& args);

// Updates all tensors on a CPU. Requires: the states of every tensor are f32.
void adafactor_cpu(const AdafactorArgs& args);

// Updates all tensors on an NVIDIA GPU in four launches, or in more if there are more than about 300
// tensors, without synchronization with the host. kernels/element_wise/add.h states the rules for all CUDA
// kernels. The parameters are all f32, or are all stored only in bf16; states are f32, gradients are f32,
// bf16 or f16, and low-precision copies are bf16 or f16. Scalars are in device memory. The kernel does not
// check that step is at least 1.
void adafactor_cuda(const AdafactorArgs& args, CudaStream stream);

}  // namespace plimsoll
