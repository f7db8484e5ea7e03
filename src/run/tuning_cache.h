// Stores tuning tables between runs. A run begins with the table of the checkpoint that it resumes from, otherwise with the
// table that an earlier run of its kind stored in the user's cache, otherwise with none. exec/tuning.h measures.
//
// A file that is damaged or has another schema is no error: the run measures again and reports why.
// Thread-safety: free functions; a file is replaced as a whole, so that concurrent runs do not damage it.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "plan/compile/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

// The name of the file within a checkpoint.
inline constexpr const char* kTuningFile = "tuning.json";

// Returns the folder that --tuning_cache names; for auto, plimsoll/tuning in XDG_CACHE_HOME, otherwise in HOME/.cache; ""
// for off and if the environment has neither.
std::string tuning_cache_folder(const std::string& word, const Environment& environment);

// Returns the name of the file for runs with these products on this card, such as "nvidia-h200-0123456789abcdef.json".
// Runs with the same model, buckets and precision share one.
std::string tuning_file_name(const PlanRequest& request);

// Returns the table in the file; an empty one if there is no file, and with a warning if the file cannot be used.
TuningTable read_tuning_table(FileSystem& files, const std::string& path, std::vector<std::string>& warnings);

// Writes the table, creating the folder. Returns a warning if that fails; the run continues without the file.
std::string keep_tuning_table(FileSystem& files, const std::string& path, const TuningTable& table);

}  // namespace plimsoll
