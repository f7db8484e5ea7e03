// Rows of ready-made token ids, as Hugging Face's tokenizers write them: the columns input_ids and, optionally,
// token_type_ids and attention_mask. They need no tokenizer. Thread-safe after construction; owns its memory.
//
// Memory: 4 bytes per token, 1 more if there are token types, 8 per row.
#pragma once

#include <cstdint>
#include <vector>

#include "io/data/data_table.h"
#include "io/data/token_set.h"

namespace plimsoll {

struct TokenRows {
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;          // empty, or one per id
  std::vector<int64_t> offsets = {0};  // the ids of row r begin at offsets[r]

  int64_t held_bytes() const;
};

// Reads the columns of a table; -1 for one that it does not have. Padding (attention_mask 0) is left out.
// Errors: kBadData with file:line for a cell that is not a list of integers, an id below 0 or beyond 31 bits,
// a type beyond 8 bits, a mask other than 0 and 1, lists of different lengths, and a row without tokens.
TokenRows read_token_rows(const Table& table, int64_t id_column, int64_t type_column, int64_t mask_column);

// Returns the tokens of some rows, each cut to max_length: the last id of a row, which ends a sequence, is
// kept. Requires: max_length >= 1.
TokenSet take_tokens(const TokenRows& rows, const std::vector<int64_t>& wanted, int64_t max_length);

}  // namespace plimsoll
