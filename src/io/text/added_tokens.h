// Finds added tokens, which are tokens that are matched as a whole before the tokenizer's model splits the rest of the text. At
// each position the longest token is taken. It is then rejected if its own conditions, such as matching whole words only, are not
// met.
//
// Hugging Face's tokenizers search twice: in the raw text for some tokens, and in the normalized text for the others. Each search
// has its own AddedTokenMatcher. Immutable after construction; thread-safe. Owns its tokens.
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

// A part of a text. It is either an added token, or plain text between added tokens, for which `id` is kPlainText.
struct TextPart {
  static constexpr int32_t kPlainText = -1;
  int32_t id = kPlainText;
  size_t begin = 0;  // `begin` and `end` are byte offsets in the text
  size_t end = 0;
};

class AddedTokenMatcher {
 public:
  struct Pattern {
    // the text to search for, in its normalized form if the token is matched in normalized text
    std::string text;
    AddedToken token;
  };
  // Creates a matcher that searches for the texts of all patterns. Requires: the texts are distinct and not empty. If `ignore_special` is
  // true, special tokens are not recognized, and their text remains plain text.
  AddedTokenMatcher(std::vector<Pattern> patterns, bool ignore_special);

  bool empty() const { return patterns_.empty(); }
  // A quick test that makes split() unnecessary for most texts: returns true if the text certainly contains none of the tokens. If it
  // returns false, the text may contain some, and split() must be called.
  bool surely_absent(std::string_view text) const;
  // Divides the text into added tokens and plain text, and appends these parts in order, without empty ones. As in Hugging Face's
  // tokenizers, two parts can overlap: the white space between two tokens belongs to both if the first token absorbs white space
  // on its right and the second one begins with white space.
  void split(std::string_view text, std::vector<TextPart>* parts) const;

 private:
  std::vector<Pattern> patterns_;
  ByteTrie trie_;
  std::array<bool, 256> starts_{};  // true for bytes with which a token begins
  int only_start_ = -1;  // the common first byte of all tokens, or -1 if they have several first bytes
  bool ignore_special_;
};

// An added token as a file describes it, and its id if the file contains one.
struct StatedToken {
  AddedToken token;
  std::optional<int32_t> id;
};

// Reads the JSON object of an added token: its text "content", the flags of AddedToken ("special", "single_word", "lstrip",
// "rstrip", "normalized"), and possibly "id". A missing flag is false, except for "normalized", whose default is the opposite of
// "special", as in Hugging Face's AddedToken.
StatedToken read_added_token(const JsonFields& fields);

// Reads a special token from JSON. The value is either an object as for read_added_token(), or a string, which is the text of a
// special token that is matched in the raw text.
StatedToken read_special_token(const Json& value, const std::string& where, const std::string& name);

// Returns a token id as int32_t. Errors: kBadData unless 0 <= id < 2^31 - 1.
int32_t checked_id(int64_t id, const std::string& name);

}  // namespace plimsoll::text
