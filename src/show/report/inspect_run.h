// Describes the files that a run leaves: log.jsonl, plan.json, memory.json, results, trainer_state.json. Pure
// except for reading the file; thread-safe.
#pragma once

#include <optional>
#include <string>

namespace plimsoll {

// Returns a description of a file of a run as lines for people, or nothing if its content is not that of such
// a file. A record of a log is distinguished from a row of data: every name has a number, and it contains a
// step and an epoch.
std::optional<std::string> inspect_run_file(const std::string& path);

}  // namespace plimsoll
