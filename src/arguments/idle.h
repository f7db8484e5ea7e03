// Settings that are given and change nothing in a training run because of others that are given or are not.
//
// Not what this program never looks at: such a setting has its note in the table (arguments.inc). Hugging
// Face's Trainer takes all of these without a word. Thread-safe: a pure function.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll {

// A note for each, in the order of declaration: the setting, its value, why nothing follows from it and what
// would make it count. Requires: resolve_arguments(arguments) was called.
std::vector<std::string> idle_notes(const Arguments& arguments);

}  // namespace plimsoll
