// A split of a data set (train, validation or test) before tokenization: a table, and which of its rows and columns are used. A row is a
// text or a pair of texts with a label, or a list of words with a list of tags. Thread-safe after construction. A TextSplit owns its
// table.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/data/data_columns.h"
#include "io/data/data_table.h"
#include "io/data/token_set.h"
#include "io/data/word_lists.h"

namespace plimsoll {

class TextSplit {
 public:
  // Uses every row of the table and the given columns. Errors: kBadData with file:line for a text cell that is not text (a number, null or
  // a list; only in JSON), for a cell of messages that is not a list, for a column that the table does not have (the message lists the
  // given columns and those of the table), and the errors of read_tagged_words() for lists of words.
  TextSplit(Table table, const ColumnChoice& columns);
  // Creates a split as the constructor does, but skips and counts rows that have a kNull cell in a used column, as some rows of GLUE's
  // own files do.
  static TextSplit skipping_incomplete_rows(Table table, const ColumnChoice& columns);

  int64_t num_rows() const { return static_cast<int64_t>(rows_.size()); }
  // Return the number of skipped rows, the number of empty texts in the whole file, and the lines of the first skipped row and of the
  // first empty text (0 if there is none).
  int64_t num_skipped_rows() const { return num_skipped_; }
  int64_t first_skipped_line() const { return first_skipped_line_; }
  int64_t num_empty_texts() const { return num_empty_; }
  int64_t first_empty_line() const { return first_empty_line_; }
  bool is_pair() const { return second_ >= 0; }
  bool has_label() const { return label_ >= 0; }
  // Returns true if each row is a list of words (with tags if has_label()), for token classification.
  bool has_words() const { return has_words_; }
  const Table& table() const { return table_; }
  // Returns the bytes of memory of the table and of the list of its rows, including unused capacity.
  int64_t held_bytes() const {
    return table_.held_bytes() + words_.words.held_bytes() + words_.tags.held_bytes() + ids_.held_bytes() +
           static_cast<int64_t>(rows_.capacity() * sizeof(int64_t));
  }

  // Returns true if each row is a list of token ids, which need no tokenizer.
  bool has_ids() const { return has_ids_; }
  // Returns the ids of all rows; a row with more than max_length ids is truncated. Requires: has_ids().
  TokenSet tokens(int64_t max_length) const { return take_tokens(ids_, rows_, max_length); }
  // Returns true if the file has a column of token types, even if all types are 0. Requires: has_ids().
  bool states_types() const { return ids_.states_types; }
  // Returns the position of the first token of every row, if the file states positions. Requires: has_ids().
  std::optional<int64_t> first_position() const { return ids_.first_position; }
  // Returns the line of the first row with padding before its first token, which is left out, or nothing. Requires: has_ids().
  std::optional<int64_t> first_left_padded_line() const;
  // Returns the largest token type of the rows and the line of the first row that has it. Requires: has_ids().
  std::pair<int32_t, int64_t> largest_type() const;

  // Returns the form of the conversations in the rows, or kNone if they contain none. first_text() and second_text() return the
  // conversations as JSON or text.
  ChatColumns chat() const { return chat_; }

  // The following functions require 0 <= row < num_rows() and !has_words().
  std::string_view first_text(int64_t row) const { return table_.cell(rows_[index(row)], first_); }
  std::optional<std::string_view> second_text(int64_t row) const;
  std::string_view label(int64_t row) const { return table_.cell(rows_[index(row)], label_); }
  CellKind label_kind(int64_t row) const { return table_.kind(rows_[index(row)], label_); }
  // The following functions return the words of a row and their tags, which are names or integers. num_tags() is 0 for a row without tags
  // and otherwise the number of words. Requires: has_words(), 0 <= row < num_rows(), 0 <= i < num_words(row) or num_tags(row).
  int64_t num_words(int64_t row) const { return words_.words.size(rows_[index(row)]); }
  std::string_view word(int64_t row, int64_t i) const { return words_.words.item(rows_[index(row)], i); }
  int64_t num_tags(int64_t row) const { return has_label() ? words_.tags.size(rows_[index(row)]) : 0; }
  std::string_view tag(int64_t row, int64_t i) const { return words_.tags.item(rows_[index(row)], i); }
  bool has_integer_tags() const { return words_.integer_tags; }
  // Returns the name of the label column. Requires: has_label().
  const std::string& label_column() const { return table_.columns()[index(label_)]; }
  int64_t line(int64_t row) const { return table_.line(rows_[index(row)]); }
  // Throws kBadData with file:line for the first label that cannot be read (JSON only). Requires: has_label().
  void require_readable_labels() const;
  int64_t table_row(int64_t row) const { return rows_[index(row)]; }
  // Returns a hash of everything that determines the texts: the content of the file and the columns and rows
  // that are used. Labels are not included.
  uint64_t text_hash() const;

  // Keeps the first `count` rows, as for --max_train_samples. Requires: count >= 1.
  void keep_first(int64_t count);
  // Keeps the rows for which keep(row) is true, in order.
  template <typename Keep>
  void keep_if(Keep&& keep) {
    std::vector<int64_t> kept;
    for (int64_t row = 0; row < num_rows(); ++row) {
      if (keep(row)) {
        kept.push_back(rows_[index(row)]);
      }
    }
    rows_ = std::move(kept);
  }

 private:
  TextSplit() = default;
  static TextSplit with_columns(Table table, const ColumnChoice& columns);
  static size_t index(int64_t row) { return static_cast<size_t>(row); }
  void check_text(int64_t table_row, int64_t column);
  void check_messages(int64_t table_row) const;

  Table table_;
  TaggedWords words_;  // words and tags of each row of the table; empty unless has_words_
  bool has_words_ = false;
  TokenRows ids_;  // token ids of each row of the table; empty unless has_ids_
  bool has_ids_ = false;
  ChatColumns chat_ = ChatColumns::kNone;
  std::vector<int64_t> rows_;
  int64_t first_ = -1;
  int64_t second_ = -1;
  int64_t label_ = -1;
  int64_t num_skipped_ = 0;
  int64_t num_empty_ = 0;
  int64_t first_skipped_line_ = 0;
  int64_t first_empty_line_ = 0;
};

}  // namespace plimsoll
