// Which columns of a table are the text and the label. Thread-safe: pure functions.
//
// The rule is that of Hugging Face's run_glue: "sentence1" and "sentence2" if both are there, else the first
// two columns that are not the label, else the only one. An index column ("id", "idx") is not left out, since
// run_glue does not leave it out either; the choice then carries a warning that says how to name the columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/data/data_table.h"

namespace plimsoll {

struct ColumnOptions {
  std::vector<std::string> text;  // one or two names; empty: by the rule
  std::string label = "label";
};

// The first file's choice is what the other files of a run must have, so it is by name.
struct ColumnChoice {
  std::string first;
  std::optional<std::string> second;
  std::string label;
  bool has_label = false;
  std::string warning;  // empty if there is nothing to say
};

// Errors: kBadData if a named column is not in the table or nothing but the label is (both lists are in the
// message); kUsage for more than two text columns or a text column that is the label.
ColumnChoice choose_columns(const Table& table, const ColumnOptions& options = {});

// Errors: kBadData where the table has no column of labels, naming those that it has.
void require_label_column(const Table& table, const std::string& label);

}  // namespace plimsoll
