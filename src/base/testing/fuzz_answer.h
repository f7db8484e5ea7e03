// Shared code of the libFuzzer programs. Thread-safe: no state.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {

// Runs `call`. Both a normal return and an Error with one of these codes are accepted. Any other exception
// leaves the function and is a finding of the fuzzer.
template <typename Call>
void expect_value_or(std::initializer_list<ErrorCode> codes, Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    if (std::find(codes.begin(), codes.end(), error.code()) == codes.end()) throw;
  }
}

}  // namespace plimsoll
