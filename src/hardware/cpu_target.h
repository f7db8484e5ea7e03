// The performance of a CPU that is assumed without measurements: rates per thread for each instruction set. The data is the same
// on every machine, so a plan for another machine does not need that machine. Thread-safe: constants.
//
// The rates were not measured on the machine in use. Any number that is derived from them must be shown to the user as an
// estimate.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "hardware/cpu_isa.h"

namespace plimsoll {

struct CpuTarget {
  CpuIsa isa = CpuIsa::kBaseline;
  // Rates of matrix products with the sizes of a transformer's layers, in 1e9 floating-point operations per
  // second and thread.
  double f32_gflops_per_thread = 0;
  double bf16_gflops_per_thread = 0;  // rate for bf16; 0 if the hardware does not multiply bf16
  double f64_gflops_per_thread = 0;
  // Rates of reads plus writes of streams larger than the caches, in 1e9 bytes per second, for one thread and
  // for all threads together.
  double memory_gb_per_s_per_thread = 0;
  double memory_gb_per_s_at_most = 0;
  std::string_view provenance;
};

const CpuTarget& cpu_target(CpuIsa isa);

// Returns the rate of matrix products on this number of threads. bf16 without hardware support runs at the
// rate of fp32. Requires: num_threads >= 1.
double product_gflops(const CpuTarget& target, DType dtype, int num_threads);
// Returns the memory bandwidth on this number of threads. Requires: num_threads >= 1.
double memory_gb_per_s(const CpuTarget& target, int num_threads);

// Factors that correct time estimates for one CPU: the measured time of ops in training steps relative to the
// estimate from hardware/cpu_target.h and hardware/cpu_efficiency.h. Pure data and an input of the plan,
// produced by `plimsoll bench --calibrate`. Memory planning does not depend on it.
//
// Thread-safety: a value; the functions are pure.

inline constexpr int kCalibrationSchemaVersion = 1;

struct CpuCalibration {
  std::string cpu = {};  // name and instruction set of the CPU
  int num_threads = 0;
  // The ratio of measured to estimated time, per data type of the run's matrix products and per name. The name is that of an op
  // ("matmul") or of a group of ops ("tensor contractions").
  std::map<DType, std::map<std::string, double, std::less<>>> factors = {};

  bool empty() const { return factors.empty(); }
  // Returns the factor of the op, or that of its group, or 1.
  double factor(DType type, std::string_view op, std::string_view group) const;
  friend bool operator==(const CpuCalibration&, const CpuCalibration&) = default;
};

// Formats a calibration as JSON with the version of the schema.
std::string cpu_calibration_json(const CpuCalibration& calibration);
// Parses a calibration. Errors: kBadData with `source` if the text is not the JSON text of a calibration, has another
// schema version, or contains a factor that is not positive.
CpuCalibration parse_cpu_calibration(std::string_view text, const std::string& source);

}  // namespace plimsoll
