// Random numbers that depend on a seed and the number of previous draws, equal on every machine. Not
// thread-safe.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace plimsoll::testing {

class Draw {
 public:
  Draw(uint64_t seed, uint64_t number) : seed_(seed), number_(number) {}
  // Returns a random integer between low and high, both inclusive.
  int64_t between(int64_t low, int64_t high) {
    const uint32_t word =
        philox4x32_10({static_cast<uint32_t>(number_), next_++, 0, 0}, {static_cast<uint32_t>(seed_), 11})[0];
    return low + static_cast<int64_t>(word % static_cast<uint64_t>(high - low + 1));
  }
  bool coin() { return between(0, 1) == 1; }
  bool one_in(int64_t many) { return between(1, many) == 1; }
  // Returns a random element of a list, which must not be empty.
  template <typename List>
  const auto& of(const List& list) {
    return list[static_cast<size_t>(between(0, static_cast<int64_t>(list.size()) - 1))];
  }

 private:
  uint64_t seed_;
  uint64_t number_;
  uint32_t next_ = 0;
};

}  // namespace plimsoll::testing
