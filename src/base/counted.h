// Formats a count with its noun, for people: "1 row", "2 rows". Thread-safe: pure functions.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace plimsoll {

// Requires: the plural of the noun ends in s.
template <typename Count>
std::string counted(Count count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == Count{1} ? "" : "s");
}

}  // namespace plimsoll
