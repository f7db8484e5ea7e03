// Finds settings that were given but have no effect in a training run because of other settings.
//
// Settings that the program never uses are not covered here: their notes are in the table (arguments.inc).
// Hugging Face's Trainer accepts all of these settings without a message. Thread-safe: a pure function.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll {

// Returns one note per such setting, in the order of declaration: the setting, the reason why it has no
// effect, and what would give it an effect. Requires: resolve_arguments(arguments) was called.
std::vector<std::string> idle_notes(const Arguments& arguments);

}  // namespace plimsoll
