// Finds files of tests that are not built into them. An environment variable has priority, so that programs
// built here also run on another machine, where the source tree has another path. Without the variable, the
// path known at build time is used.
//
//   PLIMSOLL_PROGRAM        the program `plimsoll`
//   PLIMSOLL_SOURCE         the source tree, for fixtures
//   PLIMSOLL_FAILING_CALLS  the module of tests/kill/failing_calls.cc
#pragma once

#include <cstdlib>
#include <string>

namespace plimsoll::testing {

inline std::string place(const char* variable, const std::string& built) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : built;
}

}  // namespace plimsoll::testing
