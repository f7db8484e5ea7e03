// The token ids of a split in compact form: all sequences concatenated, without padding. Thread-safe after
// construction; owns its memory.
//
// Memory, exactly held_bytes(): 2 bytes per token if every id is below 65536, otherwise 4; 1 more if any
// token type is not 0; 8 per row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/data/data_table.h"

namespace plimsoll {

struct TruncationCount {
  int64_t rows = 0;    // number of rows that were cut
  int64_t tokens = 0;  // number of tokens that were cut
  bool operator==(const TruncationCount&) const = default;
};

class TokenSet {
 public:
  TokenSet() = default;

  int64_t num_rows() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t num_tokens() const { return offsets_.back(); }
  int64_t longest() const { return longest_; }
  int64_t max_id() const { return max_id_; }
  int64_t length(int64_t row) const {
    return offsets_[static_cast<size_t>(row) + 1] - offsets_[static_cast<size_t>(row)];
  }
  const TruncationCount& truncation() const { return truncation_; }
  bool has_types() const { return !types_.empty(); }
  bool is_narrow() const { return wide_.empty(); }
  int64_t held_bytes() const;
  // Returns the length of each row, in the form that samplers need.
  std::vector<int32_t> lengths() const;

  // Write length(row) values. Requires: 0 <= row < num_rows().
  void copy_ids(int64_t row, int32_t* out) const;
  void copy_types(int64_t row, int32_t* out) const;

  // Return the arrays, which the token cache writes to its file.
  std::span<const uint16_t> narrow_ids() const { return narrow_; }
  std::span<const int32_t> wide_ids() const { return wide_; }
  std::span<const uint8_t> types() const { return types_; }
  std::span<const int64_t> offsets() const { return offsets_; }

  // Creates a set from existing parts. Requires: offsets begin with 0, never decrease, and end with the
  // number of ids; one of narrow and wide is empty; types is empty or has one entry per id.
  static TokenSet from_parts(std::vector<uint16_t> narrow, std::vector<int32_t> wide,
                             std::vector<uint8_t> types, std::vector<int64_t> offsets,
                             TruncationCount truncation);

  // Creates a set of rows of one length without their ids, for a plan: lengths and held_bytes() are as if there were ids,
  // of `id_bytes` bytes each. Ids and types must not be read.
  static TokenSet of_length(int64_t num_rows, int64_t length, int64_t id_bytes);

  bool operator==(const TokenSet&) const = default;

 private:
  std::vector<uint16_t> narrow_;
  std::vector<int32_t> wide_;
  std::vector<uint8_t> types_;
  std::vector<int64_t> offsets_ = {0};
  TruncationCount truncation_;
  int64_t longest_ = 0;
  int64_t max_id_ = 0;
  int64_t absent_bytes_ = 0;  // of ids that are only counted
};

// Rows of ready-made token ids, as Hugging Face's tokenizers write them: the columns input_ids and, optionally,
// token_type_ids and attention_mask. They need no tokenizer. Thread-safe after construction; owns its memory.
//
// Memory: 4 bytes per token, 1 more if there are token types, 8 per row.

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
