// The reports that `plimsoll bench` makes from a table of experiments: summary, texts, JSON and CSV files, and a plot.
// docs/EXPERIMENTS.md describes the files. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/experiments.h"
#include "show/report/picture.h"

namespace plimsoll {

// The effect of one method alone: speed and memory of the run that uses only this method, divided by those of the
// first run in the table. Above 1, `speed` means faster and `memory` means more memory.
struct MethodGain {
  std::string method;
  double speed = 0;
  double memory = 0;
  // the sum of the spreads of both runs' speeds, where speed_spread() defines the spread of a repeated run's speed
  std::optional<double> spread = {};
};

// The errors of the predicted speeds and memory of all rows of the table. An error is predicted / measured - 1.
struct PredictionErrors {
  int64_t rows = 0;
  int64_t near = 0;  // number of rows whose predicted speed is off by at most 15 %
  double worst = 0;  // the speed error with the largest absolute value, with its sign
  double worst_memory = 0;
};

struct ExperimentSummary {
  // Name of the first row that ran, with which the other rows are compared. If no row ran, all fields of the summary
  // are empty.
  std::string reference = {};
  std::vector<MethodGain> alone = {};
  // The fastest row. `is_fastest_clear`: it is faster than every other row by more than the spread of both rows'
  // speeds. A row that ran fewer than three times has no spread, and then the result is never clear.
  std::string fastest = {};
  double fastest_samples_per_s = 0;
  bool has_spread = false;
  bool is_fastest_clear = false;
  // The row with the least memory. `is_smallest_clear` is true if every other row needs more memory, and the difference is more than 2 MiB
  // and more than 2 % of the memory of the other row.
  std::string smallest = {};
  bool is_smallest_clear = false;
  int64_t smallest_bytes = 0;
  PredictionErrors predictions = {};
  // The errors that remain for the other rows if all predicted speeds are multiplied by `scale`, the ratio of
  // measured to predicted speed of the first row.
  double scale = 0;
  PredictionErrors scaled = {};
  bool is_calibrated = false;  // true if a calibration of this device was used for the predictions
};

ExperimentSummary summarize(const std::vector<ExperimentRow>& rows);

// Returns the first row that ran, with which the other rows are compared; nullptr if no row ran.
const ExperimentRow* reference_row(const std::vector<ExperimentRow>& rows);

// Returns value / reference; 0 if the reference is 0.
double ratio(double value, double reference);

// Formats the table of measured experiments with at most 100 columns and a newline at the end. A name longer than its
// column continues on the next line. Ratios of speed and memory are relative to the first row that ran.
std::string experiment_table(const std::vector<ExperimentRow>& rows);
// Formats the predicted speed and memory of the experiments next to the values on Hugging Face's page about training on
// one GPU, with at most 80 columns and a newline at the end.
std::string planned_experiment_table(const ExperimentPlan& plan);
// Describes which method alone improves the speed and which saves memory, and by how much. It uses only the
// rows with a single method.
std::string experiment_summary(const std::vector<ExperimentRow>& rows);

// Returns a CSV file: a header and one line per row.
std::string experiment_csv(const std::vector<ExperimentRow>& rows);

// Version of the format of the JSON file. Version 2 added the date, program, machine and summary.
inline constexpr int kExperimentJsonVersion = 2;

nlohmann::json experiment_row_object(const ExperimentRow& row);
// Parses a row of the JSON file. Files of version 1 are accepted too. Errors: nlohmann::json::exception if a field is
// missing or has a wrong type.
ExperimentRow experiment_row_of(const nlohmann::json& object);

// Returns the same predictions and values of Hugging Face's page as planned_experiment_table(), as JSON.
std::string planned_experiment_json(const ExperimentPlan& plan);

// Returns the text of a JSON file with the date, program and machine (`origin`), the summary and the rows.
std::string experiment_json(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin);

// Draws a plot of memory and speed with one row of bars per method. The colours are those of Okabe and Ito (2008),
// which people with any common form of colour blindness can distinguish: blue for this program, orange for Hugging
// Face's Trainer if it ran the rows too. Predictions are marks across the bars, so they need no colour. Rows without
// measurements have no bars; the caption names them. Requires: at least one row.
Picture experiment_picture(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin);

}  // namespace plimsoll
