// Tokenises a split on several threads. The result does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>

#include "io/data/text_encoder.h"
#include "io/data/text_split.h"
#include "io/data/token_set.h"

namespace plimsoll {

struct TokenizeOptions {
  int64_t max_seq_length = 128;
  int num_threads = 1;
  // Called now and then, from any of the threads but never from two at once, with the rows done so far. May
  // be empty.
  std::function<void(int64_t rows_done)> progress;
};

// Requires: max_seq_length >= 1, num_threads >= 1. Errors: what the encoder throws, with file:line of the row
// in front; if several rows are bad, the first of them. Memory: the result, and once more its ids while the
// threads' parts are joined.
TokenSet tokenize_split(const TextSplit& split, const TextEncoder& encoder, const TokenizeOptions& options);

}  // namespace plimsoll
