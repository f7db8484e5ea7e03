// The settings (arguments.h) that each command uses: training uses all of them, the other commands use fewer.
// Thread-safe: pure functions.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "plimsoll/arguments.h"

namespace plimsoll {

enum class RunCommand { kTrain, kPlan, kEvaluate, kPredict, kGenerate };
// Returns the name of a command: "train", "plan", "eval", "predict" or "generate".
std::string_view to_string(RunCommand command);

// Returns true if the setting changes the work or the output of the command. Errors: kUsage for an unknown
// name.
bool is_used_by(RunCommand command, std::string_view name);

// Returns the text of arguments_help() for the settings that the command uses, and a line about the settings that it
// does not use. With "all" or the name of a setting as topic, the text is the same for every command. Errors: as
// arguments_help.
std::string command_help(RunCommand command, std::string_view topic = "");

// Refuses a file or a folder on the command line that the command would not use. Errors: kUsage.
void refuse_unused_files(RunCommand command, const ParseResult& parsed);

// Returns a note with the settings in `given` that kEvaluate or kPredict does not use, or an empty string if
// it uses all of them. The result is always empty for kTrain, which uses all settings, and for kPlan, which
// accepts all settings of a training run.
std::string unused_note(RunCommand command, const std::set<std::string>& given);

}  // namespace plimsoll
