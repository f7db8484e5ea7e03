// Finds added tokens in a text before the model processes it: the leftmost, longest match first, then the
// conditions of each token.
//
// Hugging Face's tokenizers do this in two passes over different texts (raw, then normalized), with one
// matcher per pass. Immutable after construction; thread-safe. Owns its tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/byte_trie.h"
#include "io/text/tokenizer.h"

namespace plimsoll::text {

// Part of a text: an added token, or the text between tokens (id is kPlainText).
struct TextPart {
  static constexpr int32_t kPlainText = -1;
  int32_t id = kPlainText;
  size_t begin = 0;  // bytes
  size_t end = 0;
};

class AddedTokenMatcher {
 public:
  struct Pattern {
    std::string text;  // the text to match; for normalized tokens their normalized form
    AddedToken token;
  };
  // Requires: the texts of the patterns are distinct and not empty. `ignore_special` leaves special tokens in
  // the text.
  AddedTokenMatcher(std::vector<Pattern> patterns, bool ignore_special);

  bool empty() const { return patterns_.empty(); }
  // Returns true if no part of the text can match. This is the fast answer for almost every text.
  bool surely_absent(std::string_view text) const;
  // Appends the parts of the text in order, including plain text, without empty parts. Parts can overlap if a
  // token that includes white space on its right is followed by one that starts with white space, as in
  // Hugging Face's tokenizers.
  void split(std::string_view text, std::vector<TextPart>* parts) const;

 private:
  std::vector<Pattern> patterns_;
  ByteTrie trie_;
  std::array<bool, 256> starts_{};  // first bytes of the patterns
  int only_start_ = -1;             // the first byte, if all patterns share it
  bool ignore_special_;
};

}  // namespace plimsoll::text
