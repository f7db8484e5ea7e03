// What the libFuzzer programs share. For those alone. Thread-safe: no state.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {

// Calls `call`: a value is an answer, and so is an Error of one of these codes. Any other fault leaves the
// function, and is a finding.
template <typename Call>
void expect_value_or(std::initializer_list<ErrorCode> codes, Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    if (std::find(codes.begin(), codes.end(), error.code()) == codes.end()) throw;
  }
}

}  // namespace plimsoll
