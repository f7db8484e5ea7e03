// Summarizes a table of experiments: the effect of each method, and the errors of the predictions. The texts
// are made in experiment_table.h and in the JSON file. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/experiments.h"

namespace plimsoll {

// A row with a single method, as ratios to the first row that ran. Values above 1 mean faster, and more
// memory.
struct MethodGain {
  std::string method;
  double speed = 0;
  double memory = 0;
  std::optional<double> spread = {};  // of both rows together; see speed_spread()
};

// Errors of the predictions: predicted / measured - 1.
struct PredictionErrors {
  int64_t rows = 0;
  int64_t near = 0;  // number of rows within 15 %
  double worst = 0;  // largest error of the speed, with its sign
  double worst_memory = 0;
};

struct ExperimentSummary {
  // The name of the first row that ran. If no row ran, all fields are empty.
  std::string reference = {};
  std::vector<MethodGain> alone = {};
  std::string fastest = {};
  double fastest_samples_per_s = 0;
  std::string smallest = {};
  int64_t smallest_bytes = 0;
  PredictionErrors predictions = {};
  // The same for the other rows, with all predictions multiplied by the ratio of measured to predicted speed
  // of the first row.
  double scale = 0;
  PredictionErrors scaled = {};
  bool is_calibrated = false;  // true if a calibration of this device was used for the predictions
};

ExperimentSummary summarize(const std::vector<ExperimentRow>& rows);

// Returns the first row that ran, the reference of the others, or nullptr if no row ran.
const ExperimentRow* reference_row(const std::vector<ExperimentRow>& rows);

// Returns value / reference, or 0 if there is no reference.
double ratio(double value, double reference);

}  // namespace plimsoll
