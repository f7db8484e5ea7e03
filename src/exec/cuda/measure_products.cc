#include "exec/cuda/measure_products.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/units.h"
#include "device/cuda/event.h"
#include "kernels/matmul/matmul_cuda.h"
#include "kernels/matmul/one_cuda.h"

namespace plimsoll {
namespace {

// Each run reads its operands from another part of a memory range of this size, so that no run finds its operands in the cache. The size is
// at least twice the cache of an H200 (50 MiB) and of newer GPUs.
constexpr int64_t kRotatedBytes = 320 * kMiB;
constexpr int kRuns = 3;
// The size of a pattern of random numbers. Copies of it fill all operands.
constexpr int64_t kPatternBytes = kMiB;

int64_t aligned(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// The offsets of the operands b, c and bias of one matrix product in memory (a has offset 0), and
// the size of all of them in `bytes`.
struct Operands {
  explicit Operands(const MatmulProblem& p)
      : b(aligned(p.m * p.k * dtype_bytes(p.a))),
        c(b + aligned(p.k * p.n * dtype_bytes(p.b))),
        bias(c + aligned(p.m * p.n * dtype_bytes(p.c))),
        bytes(bias + aligned(p.n * dtype_bytes(p.bias_dtype))) {}
  int64_t b, c, bias, bytes;
};

class CudaMeasurer final : public ProductMeasurer {
 public:
  CudaMeasurer(CudaDevice& device, std::byte* memory, int64_t bytes)
      : device_(device), memory_(memory), bytes_(bytes) {
    for (int i = 0; i < 2 * kRuns; ++i) events_.emplace_back(CudaEvent::Times::kYes);
    write_pattern();
  }

  std::string card() const override { return device_.info().name; }
  std::string library() const override { return matmul_library_cuda(); }
  double seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  std::vector<TunedProduct> candidates(const PlannedMatmul& product, int most) override {
    return matmul_candidates_cuda(product.problem, product.fp32, most);
  }

  std::optional<double> measure(const PlannedMatmul& product, const TunedProduct& candidate) override {
    const MatmulProblem& problem = product.problem;
    const int64_t scratch_bytes =
        problem.workspace_bytes +
        (product.fp32 == Fp32Products::kTf32x3 ? tf32x3_split_bytes(problem) : int64_t{0});
    const Operands places(problem);
    std::byte* scratch = memory_ + kPatternBytes;
    std::byte* operands = scratch + scratch_bytes;
    const int64_t room = bytes_ - kPatternBytes - scratch_bytes;
    if (room < places.bytes) return std::nullopt;
    const int64_t sets =
        std::clamp<int64_t>((kRotatedBytes + places.bytes - 1) / places.bytes, 1, room / places.bytes);
    const std::unique_ptr<CudaMatmul> matmul = prepare_matmul_cuda(problem, product.fp32, &candidate);
    if (matmul->description().find(candidate.words) == std::string::npos) return std::nullopt;
    const bool adds = problem.writes == MatmulWrites::kOverwriteOrAdd;
    // The product adds to its output instead of overwriting it if a flag in device memory is not 0. The flag has the bits of 1.0f.
    const int32_t* flag = adds ? static_cast<const int32_t*>(one_on_device()) : nullptr;
    int64_t turn = 0;
    const auto run = [&] {
      std::byte* set = operands + turn++ % sets * places.bytes;
      matmul->run({.a = {set, problem.a},
                   .b = {set + places.b, problem.b},
                   .bias = problem.bias == MatmulBias::kRow ? ConstView{set + places.bias, problem.bias_dtype}
                                                            : ConstView{},
                   .c = {set + places.c, problem.c},
                   .addend = problem.writes == MatmulWrites::kAddend ? ConstView{set + places.c, problem.c}
                                                                     : ConstView{},
                   .a_scale = is_fp8(problem.a) ? ConstView{one_on_device(), DType::kF32} : ConstView{},
                   .b_scale = is_fp8(problem.b) ? ConstView{one_on_device(), DType::kF32} : ConstView{},
                   .scratch = {scratch, static_cast<size_t>(scratch_bytes)}},
                  flag, device_.stream());
    };
    // The first run loads the algorithm and is not measured. The copies of fill() keep the GPU busy while the host enqueues the measured
    // runs, so that no measured time contains a wait for the host.
    run();
    fill(operands, sets * places.bytes);
    std::vector<float> times;
    for (size_t i = 0; i < kRuns; ++i) {
      events_[2 * i].record(device_.stream());
      run();
      events_[2 * i + 1].record(device_.stream());
    }
    device_.synchronize();
    for (size_t i = 0; i < kRuns; ++i) times.push_back(events_[2 * i + 1].ms_since(events_[2 * i]));
    std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
    return static_cast<double>(times[kRuns / 2]);
  }

 private:
  // Writes bytes that are numbers of either sign between 0.5 and 2 in each type in which operands are read. Zeros would
  // be misleading: multiplying them draws less power, and is therefore faster, than multiplying the numbers of a model.
  void write_pattern() {
    if (bytes_ < kPatternBytes) return;
    std::vector<uint16_t> host(static_cast<size_t>(kPatternBytes / 2));
    uint64_t state = 1;
    for (uint16_t& bits : host) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bits = static_cast<uint16_t>(((state >> 33) & 0x80ffu) | 0x3f00u);
    }
    device_.copy_to_device(memory_, host.data(), kPatternBytes);
    device_.synchronize();
  }

  // Fills memory with the pattern by copies, each of which copies twice as many bytes as the previous one.
  void fill(std::byte* begin, int64_t bytes) {
    const auto copy = [&](std::byte* to, const std::byte* from, int64_t count) {
      PLIMSOLL_CUDA(
          cudaMemcpyAsync(to, from, static_cast<size_t>(count), cudaMemcpyDeviceToDevice, device_.stream()));
    };
    int64_t done = std::min(bytes, kPatternBytes);
    copy(begin, memory_, done);
    for (; done < bytes; done += std::min(done, bytes - done)) {
      copy(begin + done, begin, std::min(done, bytes - done));
    }
  }

  CudaDevice& device_;
  std::byte* memory_;
  int64_t bytes_;
  std::vector<CudaEvent> events_;  // two events per measured run of a product
};

}  // namespace

std::unique_ptr<ProductMeasurer> make_cuda_measurer(CudaDevice& device, std::byte* memory, int64_t bytes) {
  return std::make_unique<CudaMeasurer>(device, memory, bytes);
}

}  // namespace plimsoll
