// Whether a setting's value lies in its range: an interval such as "[0, 1)" or choices "a|b|c". Thread-safe:
// pure functions.
#pragma once

#include <string_view>

#include "arguments/argument_table.h"

namespace plimsoll {

// Errors: kUsage if the value is outside the setting's range or choices.
void check_range(const Arguments& arguments, const Setting& setting, std::string_view where);

}  // namespace plimsoll
