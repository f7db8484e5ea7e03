// Checks of internal invariants, enabled in every build, and checked narrowing of integers. Thread-safe.
//
// A failed check is a bug in Plimsoll (exit code 1). Faults of the user or the environment throw
// plimsoll::Error instead.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {

// Throws Error{kInternal} with the file, the line, the text of the condition and the message.
[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& message);

// Throws Error{code} with a message that is formatted by fmt::format.
template <typename... Args>
[[noreturn]] void throw_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Returns the value as type To. Errors: kInternal if it does not fit.
template <std::integral To, std::integral From>
constexpr To narrow(From value) {
  if (!std::in_range<To>(value)) {
    fail_check(__FILE__, __LINE__, "narrow", fmt::format("integer {} does not fit its destination", value));
  }
  return static_cast<To>(value);
}

}  // namespace plimsoll

// Usage: PLIMSOLL_CHECK(condition) or PLIMSOLL_CHECK(condition, "format", args...).
#define PLIMSOLL_CHECK(condition, ...)                                                                \
  do {                                                                                                \
    if (!(condition)) [[unlikely]] {                                                                  \
      ::plimsoll::fail_check(__FILE__, __LINE__, #condition, ::plimsoll::check_message(__VA_ARGS__)); \
    }                                                                                                 \
  } while (false)

namespace plimsoll {
inline std::string check_message() {
  return {};
}
template <typename... Args>
std::string check_message(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}
}  // namespace plimsoll
