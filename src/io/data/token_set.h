// The token ids of a split in compact form: all sequences concatenated, without padding. Thread-safe after
// construction; owns its memory.
//
// Memory, exactly held_bytes(): 2 bytes per token if every id is below 65536, otherwise 4; 1 more if any
// token type is not 0; 8 per row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

  bool operator==(const TokenSet&) const = default;

 private:
  std::vector<uint16_t> narrow_;
  std::vector<int32_t> wide_;
  std::vector<uint8_t> types_;
  std::vector<int64_t> offsets_ = {0};
  TruncationCount truncation_;
  int64_t longest_ = 0;
  int64_t max_id_ = 0;
};

}  // namespace plimsoll
