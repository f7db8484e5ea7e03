// What ops of training steps took on one CPU beside what hardware/cpu_target.h and hardware/cpu_efficiency.h say
// of its instruction set: factors that correct an estimate. Pure data, and an input of the plan, made by
// `plimsoll bench --calibrate`. What it is not: no part of memory planning; bytes do not depend on it.
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
  std::string cpu = {};  // its name and instruction set
  int num_threads = 0;
  // Measured over estimated time of all ops of a name ("matmul"), and of all of a group ("tensor
  // contractions"), by the type that the run's products are taken in.
  std::map<DType, std::map<std::string, double, std::less<>>> factors = {};

  bool empty() const { return factors.empty(); }
  // That of the op, else of its group, else 1.
  double factor(DType type, std::string_view op, std::string_view group) const;
  friend bool operator==(const CpuCalibration&, const CpuCalibration&) = default;
};

// JSON with the schema's version.
std::string cpu_calibration_json(const CpuCalibration& calibration);
// Errors: kBadData naming `source` where the text is no such JSON, of another schema version, or a factor is
// no positive number.
CpuCalibration parse_cpu_calibration(std::string_view text, const std::string& source);

}  // namespace plimsoll
