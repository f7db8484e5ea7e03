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

// Specifies if a text without tokens is an error, or becomes a row without tokens.
enum class EmptyRows : uint8_t { kRefuse, kKeep };

struct TokenizeOptions {
  int64_t max_seq_length = 128;
  int num_threads = 1;
  // A function that is called from time to time with the number of finished rows. Any of the threads may call it, but never two at the
  // same time. May be empty.
  std::function<void(int64_t rows_done)> progress = {};
  EmptyRows empty_rows = EmptyRows::kRefuse;
  std::optional<int32_t> end_token = {};  // id that is appended to the tokens of each text
};

// Tokenizes all rows. Requires: max_seq_length >= 1, num_threads >= 1. Errors: those of the encoder, with the file and line of the row in
// front of the message; if several rows are invalid, the first one is reported. Memory: the result, and another copy of its ids while the
// results of the threads are joined.
TokenSet tokenize_split(const TextSplit& split, const TextEncoder& encoder, const TokenizeOptions& options);

// Rows whose texts are already split into words. Several threads call the functions at the same time.
struct WordRows {
  int64_t num_rows = 0;
  // Appends the words of a row to the list. They must stay valid until the whole tokenization has ended.
  std::function<void(int64_t row, std::vector<std::string_view>& words)> words;
  // Returns the file and line of a row, for error messages.
  std::function<std::string(int64_t row)> where;
};

// Rows that are texts or pairs of texts. Several threads call the functions at the same time.
struct TextRows {
  int64_t num_rows = 0;
  std::function<std::string_view(int64_t row)> first;
  std::function<std::optional<std::string_view>(int64_t row)> second;
  // Returns the text that identifies a row in error messages, such as its file and line.
  std::function<std::string(int64_t row)> where;
};

// Tokenizes texts that are not in a TextSplit, with the requirements, errors and memory of tokenize_split.
TokenSet tokenize_texts(const TextRows& rows, const TextEncoder& encoder, const TokenizeOptions& options);

// The tokens of rows that are lists of words.
struct WordTokens {
  TokenSet tokens;
  // One entry per token: the index of the word in its row if this is the first token of the word, and -1 for special tokens and for the
  // other tokens of a word. A word that has no token, or that is removed by truncation, does not occur.
  std::vector<int32_t> word_starts = {};
  uint64_t content_hash = 0;  // hash of the tokens (see token_cache.h); set if they are from a cache file
};

// Tokenizes all rows of words, with the requirements, errors and memory of tokenize_split, and 4 more bytes per
// token.
WordTokens tokenize_words(const WordRows& rows, const TextEncoder& encoder, const TokenizeOptions& options);

// Tokenizes the rows of a split. The result contains word starts if the rows are lists of words, and none if they are texts.
WordTokens tokenize_rows(const TextSplit& split, const TextEncoder& encoder, const TokenizeOptions& options);

}  // namespace plimsoll
