// The number of typing errors between two words, for suggestions in messages. Thread-safe: a pure function.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll {

// The ends at which characters of the second word are not counted.
struct FreeEnds {
  bool begin = false;
  bool end = false;
};

// Returns the optimal string alignment distance: the fewest insertions, deletions, substitutions and exchanges of two neighbouring
// characters that turn `a` into `b`, or into a part of `b` if an end is free. Cost: the product of both lengths.
size_t edit_distance(std::string_view a, std::string_view b, FreeEnds free_ends = {});

}  // namespace plimsoll
