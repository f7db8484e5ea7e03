// Finds texts that end generation (stop_strings). A stop string may begin and end inside of tokens and may begin in the prompt; it is
// found when the token is generated that contains its last byte, as by transformers' StopStringCriteria. Text is the decoded text with
// the texts of special tokens, so that "<|im_end|>" can be a stop string.
//
// Thread-safe: immutable. The tokenizer must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/text/tokenizer.h"

namespace plimsoll {

// The place of a stop string.
struct StopMatch {
  size_t index = 0;  // index into stop_strings
  int64_t bytes_before =
      0;  // number of bytes of the last token's text before the stop string; negative if it begins earlier
  int64_t bytes_after = 0;  // number of bytes of the last token's text after the stop string
  friend bool operator==(const StopMatch&, const StopMatch&) = default;
};

class StopStrings {
 public:
  // Requires: no text is empty.
  StopStrings(const Tokenizer& tokenizer, std::vector<std::string> texts);

  // Returns the stop string that the last of the tokens completes, the one that ends first, or nothing. If a token ends within a
  // character, its bytes count for the token that completes the character. Cost: decodes as many of the last tokens as the
  // longest stop string has bytes.
  std::optional<StopMatch> find(std::span<const int32_t> tokens) const;

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::string> texts_;
  size_t longest_ = 0;
};

}  // namespace plimsoll
