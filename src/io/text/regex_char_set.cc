#include "io/text/regex_char_set.h"

#include <algorithm>
#include <map>
#include <string>

#include "io/text/unicode.h"

namespace plimsoll::text::regex {

char32_t simple_lower(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kForms[] = {
      {0xB5, 0x3BC},  {0x17F, U's'},    {0x345, 0x3B9}, {0x3C2, 0x3C3}, {0x3D0, 0x3B2},
      {0x3D1, 0x3B8}, {0x3D5, 0x3C6},   {0x3D6, 0x3C0}, {0x3F0, 0x3BA}, {0x3F1, 0x3C1},
      {0x3F5, 0x3B5}, {0x1E9B, 0x1E61}, {0x1FBE, 0x3B9}};
  for (const auto& [form, letter] : kForms) {
    if (c == form) return letter;
  }
  std::u32string lower;
  UnicodeTable::get().to_lower(c, &lower);
  return lower.size() == 1 ? lower[0] : c;
}

const std::vector<char32_t>& simple_uppers(char32_t c) {
  static const std::map<char32_t, std::vector<char32_t>> uppers = [] {
    std::map<char32_t, std::vector<char32_t>> result;
    for (const char32_t upper : UnicodeTable::get().mapped_code_points()) {
      if (const char32_t lower = simple_lower(upper); lower != upper) result[lower].push_back(upper);
    }
    for (const char32_t form :
         {0xB5, 0x17F, 0x345, 0x3C2, 0x3D0, 0x3D1, 0x3D5, 0x3D6, 0x3F0, 0x3F1, 0x3F5, 0x1E9B, 0x1FBE}) {
      result[simple_lower(form)].push_back(form);
    }
    return result;
  }();
  static const std::vector<char32_t> none;
  const auto found = uppers.find(c);
  return found == uppers.end() ? none : found->second;
}

bool CharSet::contains(char32_t c) const {
  if (!fold_case) return contains_exactly(c);
  // If case is ignored, a code point is in the set if its lower case or any of its upper cases is. A negated set contains the code point
  // only if none of these is in the set before negation.
  const auto any = [&](const auto& test) {
    const char32_t lower = simple_lower(c);
    if (test(c) || test(lower)) return true;
    const auto& uppers = simple_uppers(lower);
    return std::any_of(uppers.begin(), uppers.end(), test);
  };
  if (!negated) return any([&](char32_t x) { return contains_exactly(x); });
  return !any([&](char32_t x) { return !contains_exactly(x); });
}

}  // namespace plimsoll::text::regex
