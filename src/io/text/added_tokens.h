// Finds added tokens in a text before the model sees it: leftmost, longest first, then the conditions of each
// token.
//
// The reference does this in two passes over different texts (raw, then normalised): one matcher for each
// pass. Immutable once built; thread-safe. Owns its tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/byte_trie.h"
#include "io/text/tokenizer.h"

namespace plimsoll::text {

// Part of a text: an added token, or text in between (id is kPlainText).
struct TextPart {
  static constexpr int32_t kPlainText = -1;
  int32_t id = kPlainText;
  size_t begin = 0;  // bytes
  size_t end = 0;
};

class AddedTokenMatcher {
 public:
  struct Pattern {
    std::string text;  // what is matched; for normalised tokens their normalised form
    AddedToken token;
  };
  // Requires: patterns have distinct texts, none empty. `ignore_special` leaves special tokens in the text.
  AddedTokenMatcher(std::vector<Pattern> patterns, bool ignore_special);

  bool empty() const { return patterns_.empty(); }
  // Whether no part of the text can match: the quick answer for almost every text.
  bool surely_absent(std::string_view text) const;
  // Appends the parts of the text in order, plain text included, empty parts left out. Parts may overlap
  // where a token that swallows white space to its right is followed by one that starts with it, as in the
  // reference.
  void split(std::string_view text, std::vector<TextPart>* parts) const;

 private:
  std::vector<Pattern> patterns_;
  ByteTrie trie_;
  std::array<bool, 256> starts_{};  // bytes with which a pattern starts
  int only_start_ = -1;             // that byte, if there is only one
  bool ignore_special_;
};

}  // namespace plimsoll::text
