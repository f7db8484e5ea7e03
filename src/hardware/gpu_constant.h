// The GPU memory that training processes need in addition to their arena (the memory block that the plan lays out), as measured
// on one GPU. It replaces the default value in hardware/gpu_target.h for GPUs of the same kind. Pure data and an input of the
// plan, produced by `plimsoll bench --calibrate`.
//
// Thread-safety: a value; the functions are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr int kGpuConstantSchemaVersion = 1;
// An allowance for library kernels that other tensor shapes and types than the measured ones need. On an H200 with driver 580,
// small runs hold 528 MiB outside their arenas, and all runs of BERT-base and BERT-large at most 535.
inline constexpr int64_t kOtherShapesBytes = int64_t{30} << 20;

// Upper bound of the memory that NCCL allocates on a GPU for the exchange of gradients between several GPUs, with at most 8 thread blocks:
// the 586 MiB that were measured on two H200 with driver 580 (bench/results/h200-2026-11-27.md), and an allowance for more GPUs.
inline constexpr int64_t kNcclBytes = int64_t{600} << 20;
// Memory that NCCL allocates for each additional group of GPUs (kNcclMoreBytes), and for each one-way connection for pipeline
// messages (kNcclMessageBytes), with at most 4 thread blocks. On two H100, a pipeline of two stages with two groups and two such
// connections held 725 MiB more than the same pipeline with mapped memory (bench/results/h100-2026-11-28.md).
inline constexpr int64_t kNcclMoreBytes = int64_t{80} << 20;
inline constexpr int64_t kNcclMessageBytes = int64_t{50} << 20;
// The largest number of GPUs of one machine that exchange data by mapping each other's memory. More GPUs use NCCL.
inline constexpr int kMostPeers = 8;
// Returns the memory that a GPU needs to map the arena of one other GPU: 8 bytes per 4 KiB, the size of an entry of a page table. This
// agrees with the memory that NVML reports beyond all known uses on two H100 and on two H200 (gpu_constant_test.cc).
constexpr int64_t peer_mapping_bytes(int64_t arena_bytes) {
  return (arena_bytes + 511) / 512;
}

struct MeasuredGpuConstant {
  std::string card = {};    // name of the GPU in CUDA, such as "NVIDIA H200"
  std::string driver = {};  // version of the driver, such as "580.159.04"
  std::string build = {};   // identifies the build of Plimsoll that was measured
  std::string date = {};    // date of the measurement, such as "2026-11-23"
  int64_t bytes = 0;        // memory of CUDA context, modules and library handles, plus kOtherShapesBytes
  friend bool operator==(const MeasuredGpuConstant&, const MeasuredGpuConstant&) = default;
};

// Computes the constant from the memory that several runs held outside their arenas. Errors: kUsage if there are no values, or if they
// differ by more than 48 MiB: then other processes allocated or freed GPU memory in the meantime.
int64_t gpu_constant_bytes(std::span<const int64_t> beside_arenas);

// Describes the constant: "measured here on 2026-11-23, NVIDIA H200, driver 580.159.04".
std::string describe_gpu_constant(const MeasuredGpuConstant& constant);

// Formats the constant as JSON with the version of the schema.
std::string gpu_constant_json(const MeasuredGpuConstant& constant);
// Parses a constant. Errors: kBadData with `source` if the text is not the JSON text of a constant, has another
// schema version, or the bytes are not positive.
MeasuredGpuConstant parse_gpu_constant(std::string_view text, const std::string& source);

}  // namespace plimsoll
