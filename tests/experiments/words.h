// Command lines for the tests of `fit`.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll::testing {

using Words = std::vector<std::string>;

inline bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// Returns the text without line breaks, so that a test finds a sentence however the program has wrapped it.
inline std::string in_one_line(const std::string& text) {
  std::string joined;
  for (const char c : text) {
    if (c != '\n' && c != ' ')
      joined += c;
    else if (!joined.ends_with(' '))
      joined += ' ';
  }
  return joined;
}

inline Arguments arguments_of(const Words& words) {
  return parse_arguments(words).arguments;
}

inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace plimsoll::testing
