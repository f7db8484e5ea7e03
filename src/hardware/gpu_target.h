// Data of NVIDIA GPUs that is known without access to the GPU: memory, rates, and the memory that a process holds on it outside its arena.
// Pure data, identical on every machine, so `plimsoll plan --device l4` needs no GPU. Thread-safe: constants and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace plimsoll {

struct GpuTarget {
  std::string name = {};       // name of the card for --device, such as "h200"
  std::string product = {};    // a text that CUDA's name of the card contains, such as "H200"
  int sm = 0;                  // compute capability, 90 for 9.0
  int64_t memory_bytes = 0;    // memory available to processes, as printed by nvidia-smi
  double memory_gb_per_s = 0;  // sum of the rates of reads and writes
  double f32_tflops = 0;       // rate of fp32 products on the CUDA cores, without tensor cores
  double tf32_tflops = 0;      // dense tf32 products on tensor cores; 0 if unsupported
  double bf16_tflops = 0;      // dense bf16 products on tensor cores; 0 if unsupported
  double f16_tflops = 0;
  // rate of the link to host memory in each direction, while both directions are used
  double link_gb_per_s = 0;
  // The rate in each direction of the links to the other GPUs of the machine. It is the rate of NVLink, or that of link_gb_per_s
  // if the card has no NVLink.
  double peer_gb_per_s = 0;
  // Memory that a training process holds on the GPU outside its arena (the memory block that the plan lays out): CUDA context,
  // code of the program, and library handles.
  int64_t constant_bytes = 0;
  std::string provenance = {};           // source of the rates, such as a data sheet
  std::string constant_provenance = {};  // source of constant_bytes, such as a measurement
  std::string uuid = {};                 // UUID of a card that is in this machine; empty in the table
  bool maps_peers = true;  // true if the GPU can map the memory of the other GPUs of its machine
  friend bool operator==(const GpuTarget&, const GpuTarget&) = default;
};

// The oldest compute capability for which released programs contain kernels, which is the first one in cmake/PlimsollCuda.cmake.
// Plans can be made for older cards, too.
inline constexpr int kOldestSmOfReleases = 75;
// The first compute capability whose tensor cores multiply fp8.
inline constexpr int kOldestSmOfFp8 = 89;
inline bool runs_release(const GpuTarget& target) {
  return target.sm >= kOldestSmOfReleases;
}
// Returns the name and the compute capability of a card, such as "v100-16gb (7.0)".
std::string describe_capability(const GpuTarget& target);

// Returns all cards in the table. Within a family of cards, the largest one comes first.
std::span<const GpuTarget> gpu_targets();
// Returns the card that --device selects by this name, in small or capital letters, or nothing.
std::optional<GpuTarget> find_gpu_target(std::string_view name);
// Returns the names in the table that a different spelling probably means, for example for "v100", "RTX 4090" or "NVIDIA
// A100-SXM4". Empty if there is none.
std::vector<std::string> similar_gpu_targets(std::string_view name);
// Returns the description of a card in this machine. Its rates are those of the table row whose `product` is contained in CUDA's
// name, and its memory is that of the card itself. For a card that is not in the table, the rates are estimated from its compute
// capability and number of multiprocessors, which `provenance` states.
GpuTarget gpu_target_of(std::string_view cuda_name, int sm, int num_multiprocessors, int64_t memory_bytes);

// Returns the rate of matrix products whose operands have the type `dtype`. For fp8 it is twice the rate of bf16, as in data
// sheets.
double product_gflops(const GpuTarget& target, DType dtype);

}  // namespace plimsoll
