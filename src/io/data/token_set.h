// The token ids of a split in compact form: all sequences concatenated, without padding. Thread-safe after
// construction. The ids never change, so copies share them, in memory or in a file that is mapped.
//
// Memory, as held_bytes() returns it: 2 bytes per token if every id is below 65536, otherwise 4; 1 more if any token type is not 0; 8 per
// row. The tokens of a mapped file count as mapped_bytes() instead, because the operating system reads the pages when they are used,
// drops them when memory is short, and shares them between processes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/file.h"
#include "io/data/data_table.h"

namespace plimsoll {

struct TruncationCount {
  int64_t rows = 0;    // number of rows that were truncated
  int64_t tokens = 0;  // number of tokens that were removed by truncation
  bool operator==(const TruncationCount&) const = default;
};

// The arrays of a token set. The ids are in narrow_ids or in wide_ids, and the other one is empty. `types` is empty or has one entry per
// id. Row r has the tokens [offsets[r], offsets[r + 1]).
struct TokenArrays {
  std::span<const uint16_t> narrow_ids = {};
  std::span<const int32_t> wide_ids = {};
  std::span<const uint8_t> types = {};
  std::span<const int64_t> offsets = {};
};

// The meaning of the token types. With kSegments they are the segments of a pair of texts, which the model reads. With kTrained they are
// 1 for the tokens of a conversation that are trained, and 0 for the others; only the computation of labels reads them.
enum class TypeUse : uint8_t { kSegments, kTrained };

// The arrays of a token set that are in a mapped file.
struct MappedTokens {
  std::shared_ptr<const FileMapping> file;
  TokenArrays arrays;
  int64_t max_id = 0;  // the largest token id, so that it can be returned without reading the ids
};

class TokenSet {
 public:
  TokenSet();

  int64_t num_rows() const { return static_cast<int64_t>(arrays_.offsets.size()) - 1; }
  int64_t num_tokens() const { return arrays_.offsets.back() - arrays_.offsets.front(); }
  int64_t longest() const { return longest_; }
  int64_t max_id() const { return max_id_; }
  int64_t length(int64_t row) const {
    return arrays_.offsets[static_cast<size_t>(row) + 1] - arrays_.offsets[static_cast<size_t>(row)];
  }
  const TruncationCount& truncation() const { return truncation_; }
  bool has_types() const { return !arrays_.types.empty(); }
  TypeUse type_use() const { return type_use_; }
  // Sets the meaning of the types. Requires: the set has types, or has no tokens.
  void set_type_use(TypeUse use);
  bool is_narrow() const { return arrays_.wide_ids.empty(); }
  int64_t held_bytes() const { return ids_bytes_ + offsets_bytes_; }
  int64_t mapped_bytes() const { return mapped_bytes_; }
  // Releases the pages of a mapped file that were read, so that they do not count as memory of this process. Does nothing
  // for tokens in memory. Thread-safe.
  void release_pages() const {
    if (mapping_) mapping_->release_pages();
  }
  // Returns the length of each row.
  std::vector<int32_t> lengths() const;

  // Returns one id. Requires: 0 <= row < num_rows(), 0 <= position < length(row).
  int32_t id(int64_t row, int64_t position) const {
    const auto at = static_cast<size_t>(arrays_.offsets[static_cast<size_t>(row)] + position);
    return is_narrow() ? arrays_.narrow_ids[at] : arrays_.wide_ids[at];
  }
  // Write the ids or the types of a row, which are length(row) values. Requires: 0 <= row < num_rows().
  void copy_ids(int64_t row, int32_t* out) const;
  void copy_types(int64_t row, int32_t* out) const;

  // The arrays, which the token cache writes to its file.
  std::span<const uint16_t> narrow_ids() const { return arrays_.narrow_ids; }
  std::span<const int32_t> wide_ids() const { return arrays_.wide_ids; }
  std::span<const uint8_t> types() const { return arrays_.types; }
  std::span<const int64_t> offsets() const { return arrays_.offsets; }

  // Creates a set from existing parts. Requires: offsets begin with 0, never decrease, and end with the number of ids; one of the two
  // lists of ids is empty; types is empty or has one entry per id.
  static TokenSet from_parts(std::vector<uint16_t> narrow, std::vector<int32_t> wide,
                             std::vector<uint8_t> types, std::vector<int64_t> offsets,
                             TruncationCount truncation);
  // Creates a set whose tokens are read from a mapped file. Requires: the arrays satisfy the requirements of from_parts().
  static TokenSet from_mapped(MappedTokens tokens, TruncationCount truncation);
  // Returns a set with the same tokens and other boundaries between the rows. Tokens outside of the new rows are not used, but remain in
  // memory. Requires: offsets never decrease and are within the tokens.
  TokenSet with_rows(std::vector<int64_t> offsets) const;

  // Returns a set with its own copy of the tokens of all rows, so that tokens that belong to no row use no memory.
  TokenSet copied() const;

  // Creates a set without ids, which is used only to plan memory. All rows have the same length, and lengths() and held_bytes() return what
  // they would return for a real set with `id_bytes` bytes per id. Ids and types must not be read.
  static TokenSet of_length(int64_t num_rows, int64_t length, int64_t id_bytes);

  bool operator==(const TokenSet& other) const;

 private:
  void set_rows(std::vector<int64_t> offsets);
  void find_longest();

  std::shared_ptr<const void> ids_;  // owns the memory of the ids and types, unless they are mapped
  std::shared_ptr<const FileMapping> mapping_;
  std::shared_ptr<const void> offsets_;  // owns the memory of the offsets
  TokenArrays arrays_;
  int64_t ids_bytes_ = 0;
  int64_t offsets_bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  TruncationCount truncation_;
  TypeUse type_use_ = TypeUse::kSegments;
  int64_t longest_ = 0;
  int64_t max_id_ = 0;
};

// Joins several token sets into one. Memory: that of the result, in buffers that double as they grow. Not thread-safe.
class TokenJoiner {
 public:
  // `max_id` is the largest id that is expected; it determines if ids are stored with 2 or 4 bytes. If a larger id is added to ids of 2
  // bytes, these are converted to 4 bytes.
  explicit TokenJoiner(int64_t max_id = 0) : is_wide_(max_id > 0xFFFF) {}

  void add(const TokenSet& part);
  TokenSet finish() &&;
  int64_t held_bytes() const;

 private:
  std::vector<uint16_t> narrow_ids_;
  std::vector<int32_t> wide_ids_;
  bool is_wide_;
  std::vector<uint8_t> types_;  // token types; empty as long as all of them are 0
  std::vector<int64_t> offsets_ = {0};
  TruncationCount truncation_;
  TypeUse type_use_ = TypeUse::kSegments;
};

// Rows of a data file that contain token ids instead of text, with the columns that Hugging Face's tokenizers return: the columns
// input_ids and, optionally, token_type_ids, attention_mask and position_ids, and `labels` for a language model. No tokenizer is needed.
// Thread-safe after construction; owns its memory.
//
// Memory: 4 bytes per token, 1 more if there are token types, 8 per row.

struct TokenRows {
  std::vector<int32_t> ids;
  // The token types: one per id, or an empty list if the file has none. With TypeUse::kTrained, the type of a token is 1 if the token is
  // trained, which the file states by a label that equals the token's id.
  std::vector<uint8_t> types;
  std::vector<int64_t> offsets = {0};  // row r consists of the ids from offsets[r] to offsets[r + 1]
  TypeUse type_use = TypeUse::kSegments;
  bool states_types = false;  // true if the file has the column token_type_ids, even if all types are 0
  // The position of the first token of every row, if the file has the column position_ids. The positions of later tokens follow one by one.
  std::optional<int64_t> first_position = {};
  // The first row that has padding before its first token, which is left out; -1 if there is none.
  int64_t first_left_padded = -1;

  int64_t held_bytes() const;
};

// The indices in a table of the columns with token ids, types and so on; -1 if the table does not have the column.
struct TokenColumns {
  int64_t ids = -1;
  int64_t types = -1;
  int64_t mask = -1;
  int64_t positions = -1;
  int64_t labels = -1;
};
// Reads the columns of a table. Padding (attention_mask 0) at both ends of a row is left out, so the positions of a row begin at its first
// token that is not padding. A label must be the id of the same token, or kNoLabel if the token is not trained, as for the causal language
// models of transformers, which predict the label of a token from the tokens before it. Errors: kBadData with file:line for a cell that is
// not a list of integers, an id below 0 or beyond 31 bits, a type beyond 8 bits, a type other than 0 in a row with labels, a mask other
// than 0 and 1, a mask of 0 between tokens with 1, positions of tokens that do not follow one by one or do not begin at the same number in
// every row, another label, lists of different lengths, and a row without tokens.
TokenRows read_token_rows(const Table& table, const TokenColumns& columns);

// Returns the tokens of some rows. A row with more than max_length tokens is truncated: its last id, which ends the sequence, is kept,
// and the ids before it are removed. Requires: max_length >= 1.
TokenSet take_tokens(const TokenRows& rows, const std::vector<int64_t>& wanted, int64_t max_length);

}  // namespace plimsoll
