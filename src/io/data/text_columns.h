// Decides which columns of a table can be texts to train on. It is used by data_columns.cc and word_columns.cc only. It does not select
// among several such columns. Thread-safe: pure functions.
//
// A column is never a text, whatever else the table contains, in these cases:
//   1. Its name is that of a row index ("id", "idx", "Unnamed: 0"), or its cells are numbers, true and false, or empty.
//   2. It is a form of the label: each label always occurs with the same value of the column, and labels repeat ("label_text" next to
//      "label"), or its name is that of the label with an ending ("label_name"). A model would read its answer there.
// A column of metadata is a text only if it is the only one and no other column is a text: every cell is a URL, an address, a date, a price, a hash or a file name, or
// the cells are single words under a name such as "split" or "lang".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/data_table.h"

namespace plimsoll {

// The columns of a table except the label, in the order of the file.
struct TextColumns {
  std::vector<std::string> texts;         // the columns that can be texts
  std::vector<std::string> others;        // numbers, row indexes, metadata and empty columns
  std::vector<std::string> label_copies;  // forms of the label
};

TextColumns find_text_columns(const Table& table, const std::string& label);

// Returns the only one of these columns that is certainly the text: it is called "text", "sentence", "review" or similar and has cells of
// several words, while each of the others has cells of single words, few different values, or the name of metadata such as "author".
// Returns an empty string if there is no such column, so that the user must choose. Requires: `texts` are columns of the table.
std::string find_main_text(const Table& table, const std::vector<std::string>& texts);

// Returns true for the name of a column that numbers the rows, such as "id" or "idx".
bool is_index_name(std::string_view column);

}  // namespace plimsoll
