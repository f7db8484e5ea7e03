// The regular expressions of tokenizers: the part of Oniguruma's Ruby syntax that tokenizer.json files use.
//
// Supported: literals and escapes, character classes with ranges, negation, nested and POSIX classes, \d \s \w \h and
// their negations, \p{category}, groups (capturing ones as plain groups), (?i) for single characters and (?m), alternation, greedy, lazy and
// possessive quantifiers, atomic groups, lookahead and lookbehind of bounded length, ^ $ \A \z \Z \b \B. Other
// constructs (references, scripts, absent operators, ...) are refused by name.
//
// Matching backtracks, as Oniguruma does, with a limit of steps per position. Immutable after construction;
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::text {

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

}  // namespace plimsoll::text
