// A split of a data set (such as the training data) with its tokens and labels, from which batches are made. Thread-safe after
// construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/data/data_table.h"
#include "io/data/labels.h"
#include "io/data/token_set.h"

namespace plimsoll {

// The sequences of each row if a row consists of several sequences, such as documents that are packed into a block. Row r consists of the
// sequences [offsets[r], offsets[r + 1]) of the list `sequences`.
struct PackedRows {
  std::vector<int64_t> offsets = {};  // positions in `sequences`; empty if row r is sequence r
  std::vector<int32_t> sequences = {};

  bool empty() const { return offsets.empty(); }
  int64_t num_rows() const { return static_cast<int64_t>(offsets.size()) - 1; }
  std::span<const int32_t> of(int64_t row) const {
    const auto begin = static_cast<size_t>(offsets[static_cast<size_t>(row)]);
    const auto end = static_cast<size_t>(offsets[static_cast<size_t>(row) + 1]);
    return std::span(sequences).subspan(begin, end - begin);
  }
};

struct Dataset {
  // The tokens of all sequences. Tokens attend only to tokens of their own sequence.
  TokenSet tokens;
  PackedRows packed;  // the sequences of each row; empty if every row is one sequence
  Labels labels;      // the labels of all rows; empty if the split has no labels
  // If the rows are lists of words: one entry per token, which is the index of the word in its row if the token is the first one of the
  // word, and otherwise -1.
  std::vector<int32_t> word_starts;
  // The one or two texts of each row, if they are kept to be shown next to predictions; otherwise empty.
  std::vector<std::vector<std::string>> texts;

  int64_t num_rows() const { return packed.empty() ? tokens.num_rows() : packed.num_rows(); }
  // Returns the number of tokens of all rows. This can be less than the size of `tokens`, which may contain sequences that no row uses.
  int64_t num_tokens() const {
    if (packed.empty()) return tokens.num_tokens();
    int64_t count = 0;
    for (const int32_t sequence : packed.sequences) count += tokens.length(sequence);
    return count;
  }
  // Calls visit(sequence) for the sequences of `rows`, in order.
  template <typename Visit>
  void each_sequence(std::span<const int32_t> rows, Visit&& visit) const {
    for (const int32_t row : rows) {
      if (packed.empty()) {
        visit(row);
        continue;
      }
      for (const int32_t sequence : packed.of(row)) visit(sequence);
    }
  }
  // Return the number of tokens of each row, and the number of sequences of each row. The second list is empty if every row is one
  // sequence.
  std::vector<int32_t> row_lengths() const;
  std::vector<int32_t> row_sequences() const;
  // Returns the number of labels by which the loss over these rows is divided: the number of rows, or, if labels belong to tokens, the
  // number of tokens with a label. If tokens are masked, `epoch` determines which ones.
  int64_t num_labels(std::span<const int32_t> rows, int64_t epoch) const;
  // Returns the part of `per_token`, a list with one element per token of the data set, that belongs to a row.
  std::span<const int32_t> of_row(std::span<const int32_t> per_token, int64_t row) const {
    const int64_t begin = tokens.offsets()[static_cast<size_t>(row)];
    return per_token.subspan(static_cast<size_t>(begin), static_cast<size_t>(tokens.length(row)));
  }
  // Returns the number of bytes of memory that the data set uses, as the memory plan reports it.
  int64_t held_bytes() const;
};

// Creates a synthetic data set, as in Hugging Face's performance guides: sequences of random ids, with two classes as labels by default.
// Thread-safe: a pure function.

struct DummyOptions {
  int64_t num_rows = 512;
  int64_t length = 512;
  int32_t first_id = 100;  // ids are drawn from [first_id, end_id)
  int32_t end_id = 30000;
  // The number of classes. 0 for a language model, whose labels are the next tokens, or the masked tokens if `masking` is set.
  int32_t num_labels = 2;
  std::optional<TokenMasking> masking = {};
  uint64_t seed = 42;
};

// Creates sequences of equal length without special tokens; labels are evenly distributed. Errors: kUsage for
// a count below one or an empty range of ids.
Dataset make_dummy_dataset(const DummyOptions& options = {});
// Returns held_bytes() of make_dummy_dataset(options) without creating the data set.
int64_t dummy_dataset_bytes(const DummyOptions& options);

}  // namespace plimsoll
