// What a table of experiments comes to: which method helps what, how far predictions were off. Counted from
// the rows; texts of it are the table's (experiment_table.h) and the JSON file's. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/experiments.h"

namespace plimsoll {

// A row that changes one thing, as ratios to the first row that ran: above 1 is faster, and more memory.
struct MethodGain {
  std::string method;
  double speed = 0;
  double memory = 0;
};

// Predicted over measured, less one.
struct PredictionErrors {
  int64_t rows = 0;
  int64_t near = 0;  // within 15 %
  double worst = 0;  // of speed, with its sign
  double worst_memory = 0;
};

struct ExperimentSummary {
  std::string reference = {};  // the first row that ran; "" where none did, and nothing else is there then
  std::vector<MethodGain> alone = {};
  std::string fastest = {};
  double fastest_samples_per_s = 0;
  std::string smallest = {};
  int64_t smallest_bytes = 0;
  PredictionErrors predictions = {};
  // The same of the other rows, with all predictions times what the first row reached of its own.
  double scale = 0;
  PredictionErrors scaled = {};
  bool is_calibrated = false;  // whether the predictions are by a calibration of this device
};

ExperimentSummary summarize(const std::vector<ExperimentRow>& rows);

// The first row that ran, against which others are set; nullptr if none did.
const ExperimentRow* reference_row(const std::vector<ExperimentRow>& rows);

// value / reference; 0 where there is no reference.
double ratio(double value, double reference);

}  // namespace plimsoll
