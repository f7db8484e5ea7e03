// The number of typing errors between two words, for suggestions in messages. Thread-safe: a pure function.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

// States which ends of the second word are free, which means that additional characters at this end are not counted as edits.
struct FreeEnds {
  bool begin = false;
  bool end = false;
};

// Returns the optimal string alignment distance: the fewest insertions, deletions, substitutions and exchanges of two neighbouring
// characters that turn `a` into `b`, or into a part of `b` if an end is free. Cost: the product of both lengths.
inline size_t edit_distance(std::string_view a, std::string_view b, FreeEnds free_ends = {}) {
  // The table of the dynamic program has one row per character of `a`. Only three rows are kept: that of a[i], and those of the
  // two characters before it. The oldest one is needed for an exchange of a[i - 2] and a[i - 1]. If the start of `b` is free, the
  // first row is zero, because leading characters of `b` then cost nothing. If the end is free, the result is the minimum of the
  // last row.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  if (!free_ends.begin) std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return free_ends.end ? *std::ranges::min_element(last) : last[b.size()];
}

}  // namespace plimsoll
