// Writes the files of a run other than checkpoints (results, reports, plots, the model card), in Hugging Face's formats if there are such
// formats.
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

// Writes memory.json for a run that ends with an error. Ignores errors while writing, because the error of the run is more important.
void write_memory(FileSystem& files, const std::string& folder, const Session& session) noexcept;

// Returns the part of a report that describes the program and the machine of a run.
NamedTexts run_environment(const RunSetup& setup);

// Writes plan.json and report.json, which describe the plan of a run.
void write_planned_reports(FileSystem& files, const std::string& folder, const Session& session,
                           const PlanReport& report);

// Writes plan.json, report.json, loss.svg, metrics.svg, memory.svg and, last, memory.json. Plots without any point are skipped.
// `run_name` (may be empty) appears in titles. Returns the names of the plots.
std::vector<std::string> write_run_reports(FileSystem& files, const std::string& folder,
                                           const Session& session, const PlanReport& report,
                                           const MemoryFigures& memory, const TrainOutput& output,
                                           const std::string& run_name);

// Writes README.md, a model card, unless the folder has a README.md that Plimsoll did not write. Returns true if it was written.
bool write_model_card(FileSystem& files, const std::string& folder, const RunSetup& setup,
                      const TrainOutput& output);

// Returns a table of the measured times of the training program's ops, or "" if none was measured. `step_ms` is the wall time of a step,
// or 0 if it is not known.
std::string make_profile_table(const Session& session, double step_ms);
// Returns the measured times of the training program's ops as a trace for Perfetto, or "" if none was measured.
std::string make_profile_trace(const Session& session);
// Writes the measured times of ops to profile.json in the folder. Returns false, and writes no file, if none was measured.
bool write_profile(FileSystem& files, const std::string& folder, const Session& session, double step_ms);

// Makes the README.md of a run: a model card with the same front matter, headings and table as that of Hugging Face's Trainer, and with
// the settings and results of this run. Pure; thread-safe.

// Returns the text of the model card, which ends with a newline.
std::string model_card(const RunSetup& setup, const TrainOutput& output);

// Returns true if model_card() wrote `text`, so that it may be overwritten. A README from another source must be kept.
bool is_model_card(std::string_view text);

}  // namespace plimsoll
