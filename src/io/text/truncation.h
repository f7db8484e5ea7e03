// Computes how many tokens of each text remain after truncation, with the same rules as Hugging Face's
// tokenizers. Thread-safe: pure functions.
#pragma once

#include <cstdint>

#include "io/text/tokenizer.h"

namespace plimsoll::text {

struct KeptTokens {
  int64_t first = 0;
  int64_t second = 0;
};

// Returns the number of tokens to keep of texts with `first` and `second` tokens (0 if there is no second
// text), so that at most max_tokens remain. Longest first: the longer text is cut until both have equal
// length, then both are cut; an odd token goes to the text that was longer, or to the second if both were
// equal. Errors: kUsage if kOnlyFirst or kOnlySecond would leave its text without a token.
KeptTokens truncate(int64_t first, int64_t second, int64_t max_tokens, Truncation strategy);

}  // namespace plimsoll::text
