// The pattern that a step searches for in a text, a string or a regular expression, and the changes that need it. Immutable after
// construction; thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/text/aligned_text.h"
#include "io/text/json_fields.h"
#include "io/text/regex.h"

namespace plimsoll::text {

using Matches = std::vector<std::pair<size_t, size_t>>;

class Pattern {
 public:
  // `where` names the field for errors.
  Pattern(std::u32string literal, std::string where)
      : literal_(std::move(literal)), where_(std::move(where)) {}
  Pattern(Regex regex, std::string where)
      : regex_(std::make_unique<Regex>(std::move(regex))), where_(std::move(where)) {}

  // Appends the matches in order, which do not overlap.
  void find_all(std::u32string_view text, Matches* matches) const;
  const std::string& where() const { return where_; }

 private:
  std::u32string literal_;
  std::unique_ptr<Regex> regex_;
  std::string where_;
};

// Reads the field "pattern", {"String": ...} or {"Regex": ...}.
Pattern read_pattern(const JsonFields& fields);

std::u32string to_code_points(std::string_view utf8);

// Replaces every match by `content`, whose code points take the source of the last one of the match.
void replace_matches(const Pattern& pattern, std::u32string_view content, AlignedText* text);

// Inserts a prefix with the source of the first code point. An empty text stays empty.
void prepend_text(std::u32string_view prefix, AlignedText* text);

}  // namespace plimsoll::text
