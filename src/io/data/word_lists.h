// Stores lists of words or of tags, one list per row, in one concatenated text with offsets. Used for token classification, where a row
// is a sentence of words with a tag per word. Thread-safe after construction; a WordLists owns its memory.
//
// Memory: the bytes of the items, 8 bytes per item and 8 per row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/data_table.h"

namespace plimsoll {

class WordLists {
 public:
  int64_t num_rows() const { return static_cast<int64_t>(row_ends_.size()); }
  int64_t num_items() const { return static_cast<int64_t>(item_ends_.size()); }
  // Returns the number of items in a row. Requires: 0 <= row < num_rows().
  int64_t size(int64_t row) const { return end_of_row(row) - begin_of_row(row); }
  // Returns an item of a row. Requires: 0 <= row < num_rows(), 0 <= i < size(row).
  std::string_view item(int64_t row, int64_t i) const;
  int64_t held_bytes() const;

  // To append a row, call add_item() for each of its items and then end_row().
  void add_item(std::string_view item);
  void end_row() { row_ends_.push_back(num_items()); }

 private:
  int64_t end_of_row(int64_t row) const { return row_ends_[static_cast<size_t>(row)]; }
  int64_t begin_of_row(int64_t row) const { return row == 0 ? 0 : end_of_row(row - 1); }

  std::string bytes_;
  std::vector<int64_t> item_ends_;
  std::vector<int64_t> row_ends_;
};

// The words of all rows of a table and, if the table has them, their tags.
struct TaggedWords {
  WordLists words;
  WordLists tags;             // a row without tags has an empty list
  bool integer_tags = false;  // true if the tags are integers instead of names
};

// Reads a column of lists of words and a column of lists of tags (-1: the table has none). A row whose tags are null has no tags. Errors:
// kBadData with file:line for a cell that is not a list, an empty list of words, an item that is not a word or a tag, a mixture of names
// and integers as tags of one file, and lists of different lengths (the message states both).
TaggedWords read_tagged_words(const Table& table, int64_t word_column, int64_t tag_column);

}  // namespace plimsoll
