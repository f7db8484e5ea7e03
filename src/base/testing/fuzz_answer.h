// Code that several libFuzzer programs use. Thread-safe: no state.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {

// Runs `call` for a fuzzer. It may return normally or throw an Error with one of these codes. Any other exception is not caught,
// so that the fuzzer reports it.
template <typename Call>
void expect_value_or(std::initializer_list<ErrorCode> codes, Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    if (std::find(codes.begin(), codes.end(), error.code()) == codes.end()) throw;
  }
}

}  // namespace plimsoll
