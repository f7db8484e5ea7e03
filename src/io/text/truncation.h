// How many tokens of each text survive truncation: the reference's arithmetic. Thread-safe: pure functions.
#pragma once

#include <cstdint>

#include "io/text/tokenizer.h"

namespace plimsoll::text {

struct KeptTokens {
  int64_t first = 0;
  int64_t second = 0;
};

// Tokens to keep of texts with `first` and `second` tokens (0 without a second) so that at most max_tokens
// remain. Longest first: the longer text gives way until both are equally long, then both; an odd token goes
// to the text that was longer, to the second if they were equal. Errors: kUsage where kOnlyFirst or
// kOnlySecond would leave its text without a token.
KeptTokens truncate(int64_t first, int64_t second, int64_t max_tokens, Truncation strategy);

}  // namespace plimsoll::text
