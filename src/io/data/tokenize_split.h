// Tokenizes a split on several threads. The result does not depend on the number of threads.
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
  // Called from time to time with the number of finished rows, from any of the threads but never from two at
  // once. May be empty.
  std::function<void(int64_t rows_done)> progress;
};

// Tokenizes all rows. Requires: max_seq_length >= 1, num_threads >= 1. Errors: those of the encoder, preceded
// by the file:line of the row; if several rows are invalid, the first of them. Memory: the result, and its
// ids once more while the parts of the threads are joined.
TokenSet tokenize_split(const TextSplit& split, const TextEncoder& encoder, const TokenizeOptions& options);

}  // namespace plimsoll
