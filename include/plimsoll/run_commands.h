// Which settings of a run (arguments.h) mean something to which command: all of them to train, fewer to the
// others. Thread-safe: pure functions.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "plimsoll/arguments.h"

namespace plimsoll {

enum class RunCommand { kTrain, kPlan, kEvaluate, kPredict };
// "train", "plan", "eval", "predict".
std::string_view to_string(RunCommand command);

// Whether a setting changes what the command does or prints. Errors: kUsage for a name that does not exist.
bool is_used_by(RunCommand command, std::string_view name);

// arguments_help with what the command uses, and a line on the others. With "all" or a setting's name as
// topic it is the same for every command. Errors: as arguments_help.
std::string command_help(RunCommand command, std::string_view topic = "");

// A note that names the settings among `given` which kEvaluate or kPredict does not use; "" where it uses all
// of them. Always "" for kTrain, which uses all, and for kPlan, which may be given the settings of a training
// run as they are.
std::string unused_note(RunCommand command, const std::set<std::string>& given);

}  // namespace plimsoll
