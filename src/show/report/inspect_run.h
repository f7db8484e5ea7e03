// Looking into the files that a run leaves: log.jsonl, plan.json, memory.json, results, trainer_state.json.
// Pure but for reading the file; thread-safe.
#pragma once

#include <optional>
#include <string>

namespace plimsoll {

// What is in a file of a run, lines for people; nothing where the file is none, by its content. Files of
// data that look alike are told apart: a record of a log has a number for every name, and a step and an
// epoch.
std::optional<std::string> inspect_run_file(const std::string& path);

}  // namespace plimsoll
