// What training processes held on one card beside their arenas, measured there: in place of the figure that
// hardware/gpu_target.h has for its kind. Pure data, and an input of the plan, made by `plimsoll bench
// --calibrate`.
//
// Thread-safety: a value; the functions are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr int kGpuConstantSchemaVersion = 1;
// Kernels of libraries that other shapes and types load than those that were measured. On an H200 with driver
// 580 small runs hold 528 MiB beside their arenas, and no run of BERT-base or BERT-large more than 535.
inline constexpr int64_t kOtherShapesBytes = int64_t{30} << 20;

struct MeasuredGpuConstant {
  std::string card = {};    // CUDA's name for it: "NVIDIA H200"
  std::string driver = {};  // "580.159.04"
  std::string build = {};   // of the program that was measured
  std::string date = {};    // "2026-11-23"
  int64_t bytes = 0;        // context, modules and library handles, kOtherShapesBytes included
  friend bool operator==(const MeasuredGpuConstant&, const MeasuredGpuConstant&) = default;
};

// From what runs held beside their arenas. Errors: kUsage where that is nothing that a process alone on a
// card holds: none, or more than 48 MiB apart, for then others took or gave back memory meanwhile.
int64_t gpu_constant_bytes(std::span<const int64_t> beside_arenas);

// "measured here on 2026-11-23, NVIDIA H200, driver 580.159.04".
std::string describe_gpu_constant(const MeasuredGpuConstant& constant);

// JSON with the schema's version.
std::string gpu_constant_json(const MeasuredGpuConstant& constant);
// Errors: kBadData naming `source` where the text is no such JSON, of another schema version, or the bytes
// are not positive.
MeasuredGpuConstant parse_gpu_constant(std::string_view text, const std::string& source);

}  // namespace plimsoll
