// Functions for tests of settings: they parse a command line and return the message of the error that it causes.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll::test {

inline ParseResult parse(const std::vector<std::string>& words) {
  return parse_arguments(words);
}

// Runs `body`, which must throw kUsage, and returns the error message.
template <typename Body>
std::string usage_error(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was raised";
  return {};
}

inline std::string error_of(const std::vector<std::string>& words) {
  return usage_error([&] { parse(words); });
}

}  // namespace plimsoll::test
