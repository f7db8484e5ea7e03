// Tokenizes a split on several threads. The result does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/text_encoder.h"
#include "io/data/text_split.h"
#include "io/data/token_set.h"

namespace plimsoll {

// States if a text without tokens is an error or a row without tokens.
enum class EmptyRows : uint8_t { kRefuse, kKeep };

struct TokenizeOptions {
  int64_t max_seq_length = 128;
  int num_threads = 1;
  // Called from time to time with the number of finished rows, from any of the threads but never from two at
  // once. May be empty.
  std::function<void(int64_t rows_done)> progress = {};
  EmptyRows empty_rows = EmptyRows::kRefuse;
  std::optional<int32_t> end_token = {};  // appended to the tokens of each text
};

// Tokenizes all rows. Requires: max_seq_length >= 1, num_threads >= 1. Errors: those of the encoder, preceded
// by the file:line of the row; if several rows are invalid, the first of them. Memory: the result, and its
// ids once more while the parts of the threads are joined.
TokenSet tokenize_split(const TextSplit& split, const TextEncoder& encoder, const TokenizeOptions& options);

// Rows whose texts are already split into words. Several threads call the functions at once.
struct WordRows {
  int64_t num_rows = 0;
  // Appends the words of a row, which stay valid until the end of the call that tokenizes.
  std::function<void(int64_t row, std::vector<std::string_view>& words)> words;
  // Returns the file:line of a row, for errors.
  std::function<std::string(int64_t row)> where;
};

// Rows that are texts or pairs of texts. Several threads call the functions at once.
struct TextRows {
  int64_t num_rows = 0;
  std::function<std::string_view(int64_t row)> first;
  std::function<std::optional<std::string_view>(int64_t row)> second;
  // Returns the text by which error messages name a row, such as its file and line.
  std::function<std::string(int64_t row)> where;
};

// Tokenizes texts that are not in a TextSplit, with the requirements, errors and memory of tokenize_split.
TokenSet tokenize_texts(const TextRows& rows, const TextEncoder& encoder, const TokenizeOptions& options);

// The tokens of rows of words.
struct WordTokens {
  TokenSet tokens;
  // One entry per token, with the offsets of `tokens`: the index of the word in its row whose first token this
  // is, or -1 for special tokens and for the further tokens of a word. A word that gives no token, or that is
  // cut, does not occur.
  std::vector<int32_t> word_starts = {};
  uint64_t content_hash = 0;  // content_hash() of token_cache.h, if the tokens came from a file
};

// Tokenizes all rows of words, with the requirements, errors and memory of tokenize_split, and 4 more bytes per
// token.
WordTokens tokenize_words(const WordRows& rows, const TextEncoder& encoder, const TokenizeOptions& options);

// Tokenizes the rows of a split, whether they are texts (then there are no word starts) or lists of words.
WordTokens tokenize_rows(const TextSplit& split, const TextEncoder& encoder, const TokenizeOptions& options);

}  // namespace plimsoll
