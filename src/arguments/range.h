// Checks that the value of a setting is within its range: an interval such as "[0, 1)" or choices "a|b|c".
// Thread-safe: pure functions.
#pragma once

#include <string_view>

#include "arguments/argument_table.h"

namespace plimsoll {

// Checks the value of one setting. Errors: kUsage if it is outside the range or choices of the setting.
void check_range(const Arguments& arguments, const Setting& setting, std::string_view where);

}  // namespace plimsoll
