// Units that several folders use.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

// The number of bytes in a MiB.
inline constexpr int64_t kMiB = int64_t{1} << 20;

// Converts bytes to MiB, rounded down as in nvidia-smi.
constexpr int64_t whole_mib(int64_t bytes) {
  return bytes / kMiB;
}

// Formats a count with its noun for messages: "1 row", "2 rows". Thread-safe: pure functions.

// Returns the count and the noun. Requires: the plural of the noun is formed with an s.
template <typename Count>
std::string counted(Count count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == Count{1} ? "" : "s");
}

}  // namespace plimsoll
