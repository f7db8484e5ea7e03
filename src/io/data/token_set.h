// The token ids of a split in compact form: all sequences concatenated, without padding. Thread-safe after
// construction. The ids never change, so copies share them, in memory or in a file that is mapped.
//
// Memory, exactly held_bytes(): 2 bytes per token if every id is below 65536, otherwise 4; 1 more if any
// token type is not 0; 8 per row. The tokens of a mapped file are mapped_bytes() instead: the kernel reads the pages
// when they are used, drops them when memory is short, and shares them between processes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/file.h"
#include "io/data/data_table.h"

namespace plimsoll {

struct TruncationCount {
  int64_t rows = 0;    // number of rows that were cut
  int64_t tokens = 0;  // number of tokens that were cut
  bool operator==(const TruncationCount&) const = default;
};

// The arrays of a set: one of narrow and wide has the ids, types is empty or has one entry per id, and row r has the
// tokens [offsets[r], offsets[r + 1]).
struct TokenArrays {
  std::span<const uint16_t> narrow_ids = {};
  std::span<const int32_t> wide_ids = {};
  std::span<const uint8_t> types = {};
  std::span<const int64_t> offsets = {};
};

// The meaning of token types: segments of a pair of texts, which the model reads; or, in conversations, 1 for the tokens that
// are trained and 0 for the others, which only labels read.
enum class TypeUse : uint8_t { kSegments, kTrained };

// Arrays in a mapped file.
struct MappedTokens {
  std::shared_ptr<const FileMapping> file;
  TokenArrays arrays;
  int64_t max_id = 0;  // known without reading the pages
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
  // Returns the length of each row, in the form that samplers need.
  std::vector<int32_t> lengths() const;

  // Returns one id. Requires: 0 <= row < num_rows(), 0 <= position < length(row).
  int32_t id(int64_t row, int64_t position) const {
    const auto at = static_cast<size_t>(arrays_.offsets[static_cast<size_t>(row)] + position);
    return is_narrow() ? arrays_.narrow_ids[at] : arrays_.wide_ids[at];
  }
  // Write length(row) values. Requires: 0 <= row < num_rows().
  void copy_ids(int64_t row, int32_t* out) const;
  void copy_types(int64_t row, int32_t* out) const;

  // Return the arrays, which the token cache writes to its file.
  std::span<const uint16_t> narrow_ids() const { return arrays_.narrow_ids; }
  std::span<const int32_t> wide_ids() const { return arrays_.wide_ids; }
  std::span<const uint8_t> types() const { return arrays_.types; }
  std::span<const int64_t> offsets() const { return arrays_.offsets; }

  // Creates a set from existing parts. Requires: offsets begin with 0, never decrease, and end with the
  // number of ids; one of narrow and wide is empty; types is empty or has one entry per id.
  static TokenSet from_parts(std::vector<uint16_t> narrow, std::vector<int32_t> wide,
                             std::vector<uint8_t> types, std::vector<int64_t> offsets,
                             TruncationCount truncation);
  // Creates a set whose tokens stay in a file. Requires: as from_parts().
  static TokenSet from_mapped(MappedTokens tokens, TruncationCount truncation);
  // Returns the same tokens with other boundaries between the rows. Tokens outside of the new rows are in no row, but their memory is not
  // freed. Requires: offsets never decrease and are within the tokens.
  TokenSet with_rows(std::vector<int64_t> offsets) const;

  // Returns a set with its own copy of the tokens of the rows. It does not hold the memory of tokens that are in no row.
  TokenSet copied() const;

  // Creates a set of rows of one length without their ids, for a plan: lengths and held_bytes() are as if there were ids,
  // of `id_bytes` bytes each. Ids and types must not be read.
  static TokenSet of_length(int64_t num_rows, int64_t length, int64_t id_bytes);

  // Compares the content.
  bool operator==(const TokenSet& other) const;

 private:
  void set_rows(std::vector<int64_t> offsets);
  void find_longest();

  std::shared_ptr<const void> ids_;  // keeps the ids and types alive, unless they are mapped
  std::shared_ptr<const FileMapping> mapping_;
  std::shared_ptr<const void> offsets_;  // keeps the offsets alive
  TokenArrays arrays_;
  int64_t ids_bytes_ = 0;
  int64_t offsets_bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  TruncationCount truncation_;
  TypeUse type_use_ = TypeUse::kSegments;
  int64_t longest_ = 0;
  int64_t max_id_ = 0;
};

// Joins sets part by part. Memory: that of the result, which doubles as it grows. One thread at a time.
class TokenJoiner {
 public:
  // `max_id`: the largest id that is expected. If a larger id is added, the ids so far are copied to a wider type.
  explicit TokenJoiner(int64_t max_id = 0) : is_wide_(max_id > 0xFFFF) {}

  void add(const TokenSet& part);
  TokenSet finish() &&;
  int64_t held_bytes() const;

 private:
  std::vector<uint16_t> narrow_ids_;
  std::vector<int32_t> wide_ids_;
  bool is_wide_;
  std::vector<uint8_t> types_;  // empty as long as every type is 0
  std::vector<int64_t> offsets_ = {0};
  TruncationCount truncation_;
  TypeUse type_use_ = TypeUse::kSegments;
};

// Rows of ready-made token ids, as Hugging Face's tokenizers write them: the columns input_ids and, optionally,
// token_type_ids and attention_mask, and labels of a language model. They need no tokenizer. Thread-safe after construction;
// owns its memory.
//
// Memory: 4 bytes per token, 1 more if there are token types, 8 per row.

struct TokenRows {
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;          // empty, or one per id; with kTrained, 1 for an id that is a label
  std::vector<int64_t> offsets = {0};  // the ids of row r begin at offsets[r]
  TypeUse type_use = TypeUse::kSegments;

  int64_t held_bytes() const;
};

// The index in a table of each column that TokenRows are read from; -1 if the table does not have the column.
struct TokenColumns {
  int64_t ids = -1;
  int64_t types = -1;
  int64_t mask = -1;
  int64_t labels = -1;
};
// Reads the columns of a table. Padding (attention_mask 0) is left out. A label is the id itself, or kNoLabel for a token that
// is not trained, as causal language models of transformers read them: the label of a token is predicted from those before it.
// Errors: kBadData with file:line for a cell that is not a list of integers, an id below 0 or beyond 31 bits,
// a type beyond 8 bits, a type other than 0 in a row with labels, a mask other than 0 and 1, another label, lists of different
// lengths, and a row without tokens.
TokenRows read_token_rows(const Table& table, const TokenColumns& columns);

// Returns the tokens of some rows, each cut to max_length: the last id of a row, which ends a sequence, is
// kept. Requires: max_length >= 1.
TokenSet take_tokens(const TokenRows& rows, const std::vector<int64_t>& wanted, int64_t max_length);

}  // namespace plimsoll
