// Formats the table of experiments for people, the sentences of its summary, and the rows for a spreadsheet.
// Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/experiments.h"

namespace plimsoll {

// Formats the table with at most 100 columns and a newline at the end. A name longer than its column
// continues on the next line. Speed-up and saving are relative to the first row with figures.
std::string experiment_table(const std::vector<ExperimentRow>& rows);
// Formats the predictions of the rows next to what the source documents measured, with at most 80 columns and a newline
// at the end.
std::string planned_experiment_table(const ExperimentPlan& plan);
// Describes which method improves speed and which saves memory, and by how much, from the rows with a single
// method.
std::string experiment_summary(const std::vector<ExperimentRow>& rows);

// Returns a CSV file: a header and one line per row.
std::string experiment_csv(const std::vector<ExperimentRow>& rows);

}  // namespace plimsoll
