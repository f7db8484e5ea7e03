// The table of experiments as people read it, and the summary that is counted from its rows. Pure;
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/experiments.h"

namespace plimsoll {

// At most 100 columns, newline at the end. Speed-up and saving are against the first row that has figures.
std::string experiment_table(const std::vector<ExperimentRow>& rows);
// Which method helps speed and which memory, and by how much: of rows that change one thing against the
// first.
std::string experiment_summary(const std::vector<ExperimentRow>& rows);

// Files: an object with a list of rows; a line per row under a line of names; two panels of bars.
std::string experiment_json(const std::vector<ExperimentRow>& rows);
std::string experiment_csv(const std::vector<ExperimentRow>& rows);

// The first row that ran, against which others are set; nullptr if none did.
const ExperimentRow* reference_row(const std::vector<ExperimentRow>& rows);

}  // namespace plimsoll
