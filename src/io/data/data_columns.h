// Selects the text and label columns of a table. Thread-safe: pure functions.
//
// The rule is that of Hugging Face's run_glue: "sentence1" and "sentence2" if both exist, otherwise the first
// two columns other than the label, or the only one. An index column ("id", "idx") is not excluded, because
// run_glue does not exclude it either; the choice then has a warning that explains how to name the columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/data/data_table.h"

namespace plimsoll {

struct ColumnOptions {
  std::vector<std::string> text;  // one or two names; if empty, the rule above applies
  std::string label = "label";
};

// The columns of the first file, identified by name, because the other files of a run must have the same
// columns.
struct ColumnChoice {
  std::string first;
  std::optional<std::string> second;
  std::string label;
  bool has_label = false;
  std::string warning;  // empty if there is no warning
};

// Selects the columns. Errors: kBadData if a named column does not exist or the table has only a label column
// (the message contains both lists); kUsage for more than two text columns or a text column that is also the
// label.
ColumnChoice choose_columns(const Table& table, const ColumnOptions& options = {});

// Checks that the label column exists. Errors: kBadData if it does not; the message lists the existing
// columns.
void require_label_column(const Table& table, const std::string& label);

}  // namespace plimsoll
