// Finds added tokens in a text before the model processes it: the leftmost, longest match first, then the
// conditions of each token.
//
// Hugging Face's tokenizers do this in two passes over different texts (raw, then normalized), with one
// matcher per pass. Immutable after construction; thread-safe. Owns its tokens.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/byte_trie.h"
#include "io/text/json_fields.h"
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

// A token and its id, if the file states one.
struct StatedToken {
  AddedToken token;
  std::optional<int32_t> id;
};

// Reads an object with "content", the five properties, and possibly "id". Absent properties are false, except
// for "normalized", whose default is the opposite of "special", as in Hugging Face's AddedToken.
StatedToken read_added_token(const JsonFields& fields);

// Reads either a string, which means a special token matched in the raw text, or an object as read_added_token() does.
StatedToken read_special_token(const Json& value, const std::string& where, const std::string& name);

// Converts an id. Errors: kBadData if not 0 <= id < 2^31 - 1.
int32_t checked_id(int64_t id, const std::string& name);

}  // namespace plimsoll::text
