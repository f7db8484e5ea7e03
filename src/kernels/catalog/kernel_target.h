// The target of a kernel: the device that it runs on and the settings of the run that decide which kernels may
// run. Values only; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hardware/cpu_isa.h"

namespace plimsoll {

// The kind of device on which a kernel runs.
enum class KernelDevice : uint8_t { kCpu, kCuda };

constexpr std::string_view kernel_device_name(KernelDevice device) {
  return device == KernelDevice::kCpu ? "cpu" : "cuda";
}

// States how matrix products of fp32 operands are computed on a GPU. kF32: in fp32. kTf32: with operands rounded to TF32. kTf32x3: each
// operand is split into two TF32 parts, and three TF32 products of the parts are added (split_tf32.h); the error is about that of kF32 and
// the speed a third of that of kTf32.
enum class Fp32Products : uint8_t { kF32, kTf32, kTf32x3 };
constexpr std::string_view fp32_products_name(Fp32Products products) {
  return products == Fp32Products::kF32 ? "fp32" : products == Fp32Products::kTf32 ? "tf32" : "tf32x3";
}

// Default size of the workspace of a cuBLASLt matrix product: NVIDIA's recommendation for compute capability 9.0. While the product
// runs, its workspace is part of the arena, the block of memory in which all tensors are stored.
inline constexpr int64_t kCublasLtWorkspaceBytes = int64_t{32} << 20;

// The largest number of logits per row that top_logits (kernels/loss/top_logits.h) can select.
inline constexpr int64_t kMaxTopLogits = 64;

struct KernelTarget {
  KernelDevice device = KernelDevice::kCpu;
  int num_threads = 1;                              // number of threads of the kernels on a CPU
  CpuIsa isa = CpuIsa::kBaseline;                   // instruction set of the kernels on a CPU
  int sm = 0;                                       // compute capability of a GPU, 90 for 9.0; 0 on a CPU
  Fp32Products fp32_products = Fp32Products::kF32;  // precision of fp32 matrix products on a GPU
  // Size in bytes of the workspace of each cuBLASLt matrix product.
  int64_t matmul_workspace_bytes = kCublasLtWorkspaceBytes;
};

// States whether an implementation supports the problem that the catalog was asked about and, if not, why. The command `plan --why` prints
// the reason.
struct Support {
  bool ok = true;
  std::string reason = {};
};

}  // namespace plimsoll
