// Factors that correct time estimates for one CPU: the measured time of ops in training steps relative to the
// estimate from hardware/cpu_target.h and hardware/cpu_efficiency.h. Pure data and an input of the plan,
// produced by `plimsoll bench --calibrate`. Memory planning does not depend on it.
//
// Thread-safety: a value; the functions are pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace plimsoll {

inline constexpr int kCalibrationSchemaVersion = 1;

struct CpuCalibration {
  std::string cpu = {};  // name and instruction set of the CPU
  int num_threads = 0;
  // Ratios of measured to estimated time per op name ("matmul") and per group ("tensor contractions"), by the
  // data type of the run's matrix products.
  std::map<DType, std::map<std::string, double, std::less<>>> factors = {};

  bool empty() const { return factors.empty(); }
  // Returns the factor of the op, or that of its group, or 1.
  double factor(DType type, std::string_view op, std::string_view group) const;
  friend bool operator==(const CpuCalibration&, const CpuCalibration&) = default;
};

// Formats a calibration as JSON with the version of the schema.
std::string cpu_calibration_json(const CpuCalibration& calibration);
// Parses a calibration. Errors: kBadData with `source` if the text is not such JSON, has another schema
// version, or contains a factor that is not positive.
CpuCalibration parse_cpu_calibration(std::string_view text, const std::string& source);

}  // namespace plimsoll
