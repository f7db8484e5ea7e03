// The patterns for which the steps of a tokenizer search: a string or a regular expression. Also contains the functions that
// replace matches in a text. Immutable after construction; thread-safe.
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

// A regular expression in the syntax of tokenizer.json files, which is a subset of Oniguruma's Ruby syntax.
//
// Supported: literals and escapes, character classes with ranges, negation, nested and POSIX classes, \d \s \w \h and their
// negations, \p{category}, groups (capturing groups act like plain groups), (?i) for single characters and (?m), alternation,
// greedy, lazy and possessive quantifiers, atomic groups, lookahead and lookbehind of bounded length, ^ $ \A \z \Z \b \B. For any
// other construct (backreferences, scripts, absent operators, ...) the constructor throws an error that names it.
//
// Matching backtracks, as Oniguruma does. The number of steps is limited. Immutable after construction; thread-safe.
class Regex {
 public:
  // Compiles a pattern that is given in UTF-8. Errors: kBadData if the pattern is malformed or contains an unsupported construct;
  // the message contains `where` and the position in the pattern.
  Regex(std::string_view pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Appends the range of every match, in order and without overlaps. Errors: kBadData if the search needs too many steps.
  void find_all(std::u32string_view text, std::vector<std::pair<size_t, size_t>>* matches) const;

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

using Matches = std::vector<std::pair<size_t, size_t>>;

class Pattern {
 public:
  // `where` is the name of the field in tokenizer.json, for error messages.
  Pattern(std::u32string literal, std::string where)
      : literal_(std::move(literal)), where_(std::move(where)) {}
  Pattern(Regex regex, std::string where)
      : regex_(std::make_unique<Regex>(std::move(regex))), where_(std::move(where)) {}

  // Appends the range of every match, in order and without overlaps.
  void find_all(std::u32string_view text, Matches* matches) const;
  const std::string& where() const { return where_; }

 private:
  std::u32string literal_;
  std::unique_ptr<Regex> regex_;
  std::string where_;
};

// Reads the field "pattern" of a step, which is {"String": ...} or {"Regex": ...}.
Pattern read_pattern(const JsonFields& fields);

std::u32string to_code_points(std::string_view utf8);

// Replaces every match by `content`. Each code point of `content` gets the range that the last code point of the match has in the
// original text.
void replace_matches(const Pattern& pattern, std::u32string_view content, AlignedText* text);

// Inserts `prefix` at the beginning. Its code points get the range that the first code point of the text has in the original
// text. An empty text is not changed.
void prepend_text(std::u32string_view prefix, AlignedText* text);

}  // namespace plimsoll::text
