// Writes the files of a run other than checkpoints, in Hugging Face's formats if it has such files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "plan/compile/plan.h"
#include "plimsoll/plan.h"
#include "plimsoll/training.h"
#include "run/run_setup.h"
#include "show/html/report_source.h"
#include "train/session.h"

namespace plimsoll {

// Writes <split>_results.json with these metrics, and merges them into all_results.json.
void write_metrics(FileSystem& files, const std::string& folder, const std::string& split,
                   const MetricMap& metrics);

inline constexpr const char* kPlanFile = "plan.json";
inline constexpr const char* kMemoryFile = "memory.json";

// Writes memory.json for a run that ends with an error. Ignores faults of writing, since the error of the run matters more.
void write_memory(FileSystem& files, const std::string& folder, const Session& session) noexcept;

// Returns what a report says about the program and the machine of a run.
NamedTexts run_environment(const RunSetup& setup);

// Writes plan.json, report.json, loss.svg, metrics.svg, memory.svg and, last, memory.json. A plot without a point is not written.
// Titles contain `run_name` (may be empty). Returns the names of the plots.
std::vector<std::string> write_run_reports(FileSystem& files, const std::string& folder,
                                           const Session& session, const PlanReport& report,
                                           const MemoryFigures& memory, const TrainOutput& output,
                                           const std::string& run_name);

// Writes README.md, a model card, unless the folder has a README.md from another source. Returns true if it was written.
bool write_model_card(FileSystem& files, const std::string& folder, const RunSetup& setup,
                      const TrainOutput& output);

// Returns a table of the measured operations of the training program; "" if none was measured. `step_ms`: wall time of a
// step, 0 if it is not known.
std::string make_profile_table(const Session& session, double step_ms);
// Returns the measured operations of the training program as a trace for Perfetto; "" if none was measured.
std::string make_profile_trace(const Session& session);
// Writes the measured operations to profile.json in the folder. Returns false, and writes no file, if none was
// measured.
bool write_profile(FileSystem& files, const std::string& folder, const Session& session, double step_ms);

// The README.md of a run: a model card with the front matter, headings and table of Hugging Face's Trainer, and the settings
// and results of this run. Pure; thread-safe.

// Returns the text of the model card, with a newline at its end.
std::string model_card(const RunSetup& setup, const TrainOutput& output);

// Returns true if model_card() wrote `text`, so that it may be overwritten. A README from another source must not be.
bool is_model_card(std::string_view text);

}  // namespace plimsoll
