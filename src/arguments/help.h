// The text of --help for a part of the settings: what arguments_help and command_help share. Thread-safe:
// pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "plimsoll/arguments.h"

namespace plimsoll {

// As arguments_help, of the settings that `is_wanted` chooses; of a group in which it chooses none, a line
// that says so. Errors: kUsage for a topic that does not exist.
std::string help_of(std::string_view topic, const std::function<bool(const ArgumentInfo&)>& is_wanted);

// Whether the topic is one setting, of now or of old, and no group of them.
bool is_setting_topic(std::string_view topic);

}  // namespace plimsoll
