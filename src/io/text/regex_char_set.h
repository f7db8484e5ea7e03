// The sets of code points of which regular expressions consist, such as [a-z], \d and \p{Letter}, with or without regard to case.
// A set is immutable and thread-safe after finish() was called.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "io/text/unicode_properties.h"

namespace plimsoll::text::regex {

// A set of code points.
struct CharSet {
  std::vector<std::pair<char32_t, char32_t>> ranges;  // ranges of code points, including both ends
  uint32_t categories = 0;
  bool word = false, space = false, not_word = false, not_space = false;
  std::vector<CharSet> nested;
  bool negated = false;
  bool fold_case = false;
  // True for \w inside a character class. In Oniguruma, \w matches the superscripts and fractions below U+0100 only outside of a class.
  bool strict_word = false;

  // Returns true if a range contains the code point. Requires: merge_ranges() was called, which sorts and merges the ranges.
  bool in_ranges(char32_t c) const {
    const auto after =
        std::upper_bound(ranges.begin(), ranges.end(), c,
                         [](char32_t value, const auto& range) { return value < range.first; });
    return after != ranges.begin() && c <= std::prev(after)->second;
  }
  void merge_ranges() {
    std::sort(ranges.begin(), ranges.end());
    std::vector<std::pair<char32_t, char32_t>> merged;
    for (const auto& range : ranges) {
      if (!merged.empty() && range.first <= merged.back().second) {
        merged.back().second = std::max(merged.back().second, range.second);
      } else {
        merged.push_back(range);
      }
    }
    ranges = std::move(merged);
    for (CharSet& set : nested) set.merge_ranges();
  }
  bool contains_exactly(char32_t c) const {
    const uint16_t flags = UnicodeProperties::get().flags(c);
    const bool is_odd = strict_word && c < 256 && (flags & kNumeric) != 0 && c > 127;
    const bool is_word = (flags & kRegexWord) != 0 && !is_odd, is_space = (flags & kRegexSpace) != 0;
    const bool found =
        ((categories >> (flags & kCategoryMask)) & 1) != 0 || (word && is_word) || (space && is_space) ||
        (not_word && !is_word) || (not_space && !is_space) || in_ranges(c) ||
        std::any_of(nested.begin(), nested.end(), [c](const CharSet& set) { return set.contains(c); });
    return found != negated;
  }
  bool contains(char32_t c) const;

  // Completes the set. Must be called after its last change. For speed, it stores for each of the first 256 code points whether
  // the set contains it.
  void finish() {
    merge_ranges();
    for (char32_t c = 0; c < kNumStored; ++c) stored[c] = contains(c);
  }
  static constexpr char32_t kNumStored = 256;
  std::bitset<kNumStored> stored;
};

// Returns the lower case of a code point. For variant forms without a lower case of their own, such as the long s (U+017F) and
// the micro sign, it returns the normal letter. A code point without a lower case is returned unchanged.
char32_t simple_lower(char32_t c);

// Returns all code points whose lower case is `c`.
const std::vector<char32_t>& simple_uppers(char32_t c);

}  // namespace plimsoll::text::regex
