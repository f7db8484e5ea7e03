// A row of the table of experiments as a JSON object and back, and the file of all rows. docs/EXPERIMENTS.md
// says what its fields are. Pure; thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/experiments.h"

namespace plimsoll {

// 2: date, program, machine and summary.
inline constexpr int kExperimentJsonVersion = 2;

nlohmann::json experiment_row_object(const ExperimentRow& row);
// Of a version before 2 too. Errors: nlohmann::json::exception for what is no such object.
ExperimentRow experiment_row_of(const nlohmann::json& object);

// The file: where and when, the summary, the rows.
std::string experiment_json(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin);

}  // namespace plimsoll
