// What is known of NVIDIA GPUs without asking one: memory, rates, and what a process holds on a card beside
// its arena. Pure data, the same on every machine, so that `plimsoll plan --device l4` needs no GPU.
// Thread-safe: constants and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace plimsoll {

struct GpuTarget {
  std::string name = {};       // "h200", as --device takes it
  std::string product = {};    // a part of the name by which CUDA calls it, "H200"
  int sm = 0;                  // compute capability, 90 for 9.0
  int64_t memory_bytes = 0;    // that processes can have, as nvidia-smi prints it
  double memory_gb_per_s = 0;  // reads plus writes
  double f32_tflops = 0;       // on the CUDA cores
  double tf32_tflops = 0;      // dense products on tensor cores; 0: none
  double bf16_tflops = 0;      // 0: none
  double f16_tflops = 0;
  double link_gb_per_s = 0;  // to the host's memory, each way; both at once
  // Of a process that trains: context, the program's modules, library handles.
  int64_t constant_bytes = 0;
  std::string provenance = {};           // of the rates
  std::string constant_provenance = {};  // of constant_bytes
  std::string uuid = {};                 // of the card at hand; empty in the table
  friend bool operator==(const GpuTarget&, const GpuTarget&) = default;
};

// The oldest compute capability that a release of this program has code for, the first in
// cmake/PlimsollCuda.cmake; plans are made for older cards too.
inline constexpr int kOldestSmOfReleases = 75;

// Every card in the table, largest first within a family.
std::span<const GpuTarget> gpu_targets();
// By the name that --device takes; nothing if there is none.
std::optional<GpuTarget> find_gpu_target(std::string_view name);
// The card at hand: the row whose product is in CUDA's name for it, with the card's own memory; for a card
// that the table does not know, rates by compute capability and multiprocessors, said so in provenance.
GpuTarget gpu_target_of(std::string_view cuda_name, int sm, int num_multiprocessors, int64_t memory_bytes);

// Rate of matrix products. `dtype` is that of the operands.
double product_gflops(const GpuTarget& target, DType dtype);

}  // namespace plimsoll
