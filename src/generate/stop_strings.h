// Finds stop strings, the texts that end a generation. A stop string may begin and end within tokens and may begin in the prompt. It is
// found as soon as the token with its last byte has been generated, as in transformers' StopStringCriteria. Special tokens are part of
// the searched text, so that "<|im_end|>" can be a stop string.
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

// The position at which a stop string was found.
struct StopMatch {
  size_t index = 0;  // index of the string in stop_strings
  int64_t bytes_before =
      // Number of bytes of the last token's text before the stop string; negative if it begins in an earlier token.
      0;
  int64_t bytes_after = 0;  // number of bytes of the last token's text after the stop string
  friend bool operator==(const StopMatch&, const StopMatch&) = default;
};

class StopStrings {
 public:
  // Requires: none of the stop strings is empty.
  StopStrings(const Tokenizer& tokenizer, std::vector<std::string> texts);

  // Returns the stop string that the last token completes, or nothing. If it completes several, returns the one that ends first. If a
  // token ends within a character, its bytes count as part of the token that completes the character. Cost: decodes as many of the last
  // tokens as the longest stop string has bytes.
  std::optional<StopMatch> find(std::span<const int32_t> tokens) const;

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::string> texts_;
  size_t longest_ = 0;
};

}  // namespace plimsoll
