// The pattern that a step searches for in a text, a string or a regular expression, and the changes that need it. Immutable after
// construction; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/text/aligned_text.h"
#include "io/text/json_fields.h"

namespace plimsoll::text {

// The regular expressions of tokenizers: the part of Oniguruma's Ruby syntax that tokenizer.json files use.
//
// Supported: literals and escapes, character classes with ranges, negation, nested and POSIX classes, \d \s \w \h and their negations,
// \p{category}, groups (capturing ones as plain groups), (?i) for single characters and (?m), alternation, greedy, lazy and possessive
// quantifiers, atomic groups, lookahead and lookbehind of bounded length, ^ $ \A \z \Z \b \B. Other constructs (references, scripts,
// absent operators, ...) are refused by name.
//
// Matching backtracks, as Oniguruma does, with a limit of steps per position. Immutable after construction;
// thread-safe.
class Regex {
 public:
  // Compiles a pattern in UTF-8. Errors: kBadData with `where` and the position for a pattern that is malformed or
  // uses a construct that is not supported.
  Regex(std::string_view pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Appends the matches in order, which do not overlap. Errors: kBadData if the pattern needs too many steps.
  void find_all(std::u32string_view text, std::vector<std::pair<size_t, size_t>>* matches) const;

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

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

// Replaces every match by `content`. The code points of `content` take the place in the original text that the last code point of the
// match has.
void replace_matches(const Pattern& pattern, std::u32string_view content, AlignedText* text);

// Inserts a prefix, which takes the place in the original text that the first code point has. An empty text stays empty.
void prepend_text(std::u32string_view prefix, AlignedText* text);

}  // namespace plimsoll::text
