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

inline Arguments arguments_of(const Words& words) {
  return parse_arguments(words).arguments;
}

inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace plimsoll::testing
