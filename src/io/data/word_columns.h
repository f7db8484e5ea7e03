// Selects the columns of words and tags of a table, for data_columns.cc. Thread-safe: pure functions.
#pragma once

#include <optional>

#include "io/data/data_columns.h"
#include "io/data/data_table.h"

namespace plimsoll {

// Returns the columns if the rows of the table are lists of words with tags, and nothing if they are texts.
// data_columns.h defines the rule. Errors: kBadData if options.tagging requests words and the table cannot
// have them, and for lists of words that a CSV file contains as text.
std::optional<ColumnChoice> choose_word_columns(const Table& table, const ColumnOptions& options);

}  // namespace plimsoll
