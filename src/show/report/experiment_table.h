// The table of experiments as people read it, the words of its summary, and its lines for a spreadsheet.
// Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/experiments.h"

namespace plimsoll {

// At most 100 columns, newline at the end; a name that is longer than its column goes on in the next line.
// Speed-up and saving are against the first row that has figures.
std::string experiment_table(const std::vector<ExperimentRow>& rows);
// Which method helps speed and which memory, and by how much: of rows that change one thing against the
// first.
std::string experiment_summary(const std::vector<ExperimentRow>& rows);

// A file: a line per row under a line of names.
std::string experiment_csv(const std::vector<ExperimentRow>& rows);

}  // namespace plimsoll
