// Converts a row of the table of experiments to a JSON object and back, and writes the file with all rows.
// docs/EXPERIMENTS.md describes the fields. Pure; thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/experiments.h"

namespace plimsoll {

// Version 2 added the date, program, machine and summary.
inline constexpr int kExperimentJsonVersion = 2;

nlohmann::json experiment_row_object(const ExperimentRow& row);
// Parses a row, also of versions before 2. Errors: nlohmann::json::exception if the object has another form.
ExperimentRow experiment_row_of(const nlohmann::json& object);

// Returns the predictions of the rows, next to what the source documents measured.
std::string planned_experiment_json(const ExperimentPlan& plan);

// Returns the file: origin, summary and rows.
std::string experiment_json(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin);

}  // namespace plimsoll
