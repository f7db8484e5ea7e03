// A row of the table of experiments as a JSON object and back. Pure; thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "plimsoll/experiments.h"

namespace plimsoll {

inline constexpr int kExperimentJsonVersion = 1;

nlohmann::json experiment_row_object(const ExperimentRow& row);
// Errors: nlohmann::json::exception for what is no such object.
ExperimentRow experiment_row_of(const nlohmann::json& object);

}  // namespace plimsoll
