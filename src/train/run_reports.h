// The files that a run leaves beside its checkpoints, in Hugging Face's forms where it has them.
#pragma once

#include <string>

#include "base/file.h"
#include "plan/compile/plan.h"
#include "plimsoll/plan.h"
#include "plimsoll/training.h"
#include "train/session.h"

namespace plimsoll {

// <split>_results.json with these metrics, and all_results.json with these merged into it.
void write_metrics(FileSystem& files, const std::string& folder, const std::string& split,
                   const MetricMap& metrics);

inline constexpr const char* kPlanFile = "plan.json";
inline constexpr const char* kMemoryFile = "memory.json";

// memory.json of a run that ends with an error, which is worth more to the user than one of writing this.
void write_memory(FileSystem& files, const std::string& folder, const Session& session) noexcept;

// plan.json, loss.svg, memory.svg and, last, memory.json. `run_name` (may be empty) is in the title of the
// loss.
void write_run_reports(FileSystem& files, const std::string& folder, const Session& session,
                       const PlanReport& report, const MemoryFigures& memory, const TrainOutput& output,
                       const std::string& run_name);

// README.md, a model card. A README.md that is none of ours stays as it is. Returns whether it was written.
bool write_model_card(FileSystem& files, const std::string& folder, const RunSetup& setup,
                      const TrainOutput& output);

// The measured operations of the training program, for people; "" if none was measured. `step_ms`: wall time
// of a step, 0 if it is not known.
std::string make_profile_table(const Session& session, double step_ms);
// The same as profile.json in the folder; no file, and false, if none was measured.
bool write_profile(FileSystem& files, const std::string& folder, const Session& session, double step_ms);

}  // namespace plimsoll
