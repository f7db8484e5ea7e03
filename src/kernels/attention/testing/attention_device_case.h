// Runs the GPU kernels of attention in tests: copies the tensors of a test case to the device, and lists the kernels under test.
// Thread-safety: none; use one object per test.
#pragma once

#include <memory>
#include <vector>

#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/testing/attention_case.h"
#include "tests/support/device_buffer.h"

namespace plimsoll::test {

struct Kernels {
  const char* name;
  void (*forward)(const AttentionFwdArgs&, const int64_t*, CudaStream);
  void (*backward)(const AttentionBwdArgs&, const int64_t*, CudaStream);
  int64_t (*scratch_bytes)(const AttentionDims&);
  // True if products round their operands (to 16 bits or tf32), false if they use fp32.
  bool multiplies_16_bits;
};
inline constexpr Kernels kTiled = {"tiled", attention_fwd_cuda_tiled, attention_bwd_cuda_tiled,
                                   attention_bwd_cuda_tiled_scratch_bytes, false};

// The mma.sync kernels with thread blocks of 128 rows and of 64 rows.
inline constexpr Kernels kMma = {"mma",
                                 [](const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream) {
                                   attention_fwd_cuda_mma_of(args, rng, {128, 128, 128}, stream);
                                 },
                                 [](const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream) {
                                   attention_bwd_cuda_mma_of(args, rng, {128, 128, 128}, stream);
                                 },
                                 attention_bwd_cuda_mma_scratch_bytes, true};
inline constexpr Kernels kMmaSmall = {
    "mma of 64 rows",
    [](const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream) {
      attention_fwd_cuda_mma_of(args, rng, {64, 64, 64}, stream);
    },
    [](const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream) {
      attention_bwd_cuda_mma_of(args, rng, {64, 64, 64}, stream);
    },
    attention_bwd_cuda_mma_scratch_bytes, true};

// The kernels that use warpgroup instructions. On devices without these instructions they call the mma.sync kernels.
inline constexpr Kernels kWgmma = {"wgmma", attention_fwd_cuda_wgmma, attention_bwd_cuda_wgmma,
                                   attention_bwd_cuda_mma_scratch_bytes, true};

inline constexpr Kernels kTf32 = {"tf32", attention_fwd_cuda_tf32, attention_bwd_cuda_tf32,
                                  attention_bwd_cuda_mma_scratch_bytes, true};
inline constexpr Kernels kTf32Wgmma = {"tf32 wgmma", attention_fwd_cuda_tf32_wgmma,
                                       attention_bwd_cuda_tf32_wgmma, attention_bwd_cuda_mma_scratch_bytes,
                                       true};

// A copy of the tensors of a test case on the device. The constructor uploads their contents.
class OnDevice {
 public:
  OnDevice(AttentionCase& host, const Kernels& kernels);

  AttentionFwdArgs fwd_args();
  AttentionBwdArgs bwd_args();
  void forward() { kernels_.forward(fwd_args(), rng(), nullptr); }
  void backward() { kernels_.backward(bwd_args(), rng(), nullptr); }
  const int64_t* rng() const { return host_.options().dropout > 0 ? rng_.as<int64_t>() : nullptr; }
  // Copies the results back into the test case that was passed to the constructor.
  void download();
  void run() {
    forward();
    backward();
    download();
  }

 private:
  View part(const std::vector<std::unique_ptr<DeviceBuffer>>& buffers, int which) const;

  AttentionCase& host_;
  const Kernels& kernels_;
  GuardedBuffer host_rng_, host_scratch_;
  DeviceBuffer rng_, scratch_, cu_seqlens_, o_, lse_, d_o_;
  std::vector<std::unique_ptr<DeviceBuffer>> qkv_, d_qkv_;
};

// A family of kernels together with an element type that it supports.
struct Family {
  const Kernels* kernels;
  DType dtype;
};
const std::vector<Family>& families();

}  // namespace plimsoll::test
