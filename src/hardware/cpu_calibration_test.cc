#include "hardware/cpu_target.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

CpuCalibration small_calibration() {
  return {.cpu = "a CPU",
          .num_threads = 2,
          .factors = {{DType::kF32, {{"matmul", 0.8}, {"tensor contractions", 0.9}}},
                      {DType::kBF16, {{"matmul", 1.0 / 3.0}}}}};
}

TEST(CpuCalibration, AnOpHasItsOwnFactorElseItsGroups) {
  const CpuCalibration calibration = small_calibration();
  EXPECT_EQ(calibration.factor(DType::kF32, "matmul", "tensor contractions"), 0.8);
  EXPECT_EQ(calibration.factor(DType::kF32, "attention", "tensor contractions"), 0.9);
  EXPECT_EQ(calibration.factor(DType::kBF16, "attention", "tensor contractions"), 1.0);
  EXPECT_EQ(calibration.factor(DType::kF16, "matmul", "tensor contractions"), 1.0);
  EXPECT_EQ(CpuCalibration().factor(DType::kF32, "matmul", "tensor contractions"), 1.0);
}

TEST(CpuCalibration, TextRoundTrips) {
  const CpuCalibration calibration = small_calibration();
  EXPECT_EQ(parse_cpu_calibration(cpu_calibration_json(calibration), "memory"), calibration);
}

TEST(CpuCalibration, RefusesWhatItCannotUse) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(parse_cpu_calibration(text, "cpu.json"));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadData);
      return error.what();
    }
    return "not refused";
  };
  std::string text = cpu_calibration_json(small_calibration());
  text.replace(text.find("\"schema_version\": 1"), 19, "\"schema_version\": 7");
  EXPECT_NE(refusal(text).find("cpu.json: the calibration has schema version 7"), std::string::npos);
  text = cpu_calibration_json(small_calibration());
  text.replace(text.find("0.8"), 3, "0.0");
  EXPECT_NE(refusal(text).find("factor of matmul in"), std::string::npos) << refusal(text);
  const std::vector<std::pair<std::string, std::string>> broken = {
      {"", "cpu.json: not a valid calibration: line 1, column 1: not valid JSON: unexpected end of input"},
      {"[1]",
       "cpu.json: not a valid calibration: the file must contain a JSON object; plimsoll bench --calibrate "
       "writes one"},
      {"{}", "cpu.json: not a valid calibration: the key 'schema_version' is missing"},
      {R"({"schema_version": "1"})", "'schema_version' must be a number, but is of type string"},
      {R"({"schema_version": 1})", "cpu.json: not a valid calibration: the key 'cpu' is missing"},
      {R"({"schema_version": 1, "cpu": 3})", "'cpu' must be a string, but is of type number"},
      {R"({"schema_version": 1, "cpu": "a", "num_threads": 2, "factors": {"f32": 7}})",
       "'f32' must be an object, but is of type number"}};
  for (const auto& [words, said] : broken)
    EXPECT_NE(refusal(words).find(said), std::string::npos) << refusal(words);
}

}  // namespace
}  // namespace plimsoll
