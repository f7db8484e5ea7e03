// Formats the text of --help for a subset of the settings. arguments_help and command_help share it.
// Thread-safe: pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "plimsoll/arguments.h"

namespace plimsoll {

// Formats the help as arguments_help does, for the settings that `is_wanted` selects. A group without a
// selected setting gets a line that says so. Errors: kUsage for an unknown topic.
std::string help_of(std::string_view topic, const std::function<bool(const ArgumentInfo&)>& is_wanted);

// Returns true if the topic is the current or old name of one setting, not of a group.
bool is_setting_topic(std::string_view topic);

}  // namespace plimsoll
