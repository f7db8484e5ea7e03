// Keeps tuning tables between runs. A run begins with the table of the checkpoint that it resumes from, else
// with the one that an earlier run of its kind left in the user's cache, else with none. Measuring is not
// done here (exec/tuning.h).
//
// A file that is damaged or of another schema is no error: the run measures anew, and says why.
// Thread-safety: free functions; a file is replaced as a whole, so runs side by side do not harm each other.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "plan/compile/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

// The file within a checkpoint.
inline constexpr const char* kTuningFile = "tuning.json";

// The folder that --tuning_cache names: the word itself; for auto plimsoll/tuning in XDG_CACHE_HOME, else in
// HOME/.cache; "" for off and where the environment has neither.
std::string tuning_cache_folder(const std::string& word, const Environment& environment);

// The name of the file for runs with these products on this card, "nvidia-h200-0123456789abcdef.json". Runs
// of the same model, buckets and precision share one.
std::string tuning_file_name(const PlanRequest& request);

// The table in the file; empty where there is none, or with a warning where it cannot be used.
TuningTable read_tuning_table(FileSystem& files, const std::string& path, std::vector<std::string>& warnings);

// Writes the table, making the folder. Returns a warning where that fails: the run goes on without.
std::string keep_tuning_table(FileSystem& files, const std::string& path, const TuningTable& table);

}  // namespace plimsoll
