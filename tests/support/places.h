// Where tests find what they did not build into themselves. A variable of the environment comes first, so
// that programs that were built here run on another machine, where the tree lies elsewhere; without it, the
// place that the build knew.
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
