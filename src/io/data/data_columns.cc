#include "io/data/data_columns.h"

#include <algorithm>

#include "base/check.h"
#include "io/data/word_columns.h"

namespace plimsoll {
namespace {

// Returns true for the name of an index column written by pandas, which has no name in the file. It is never
// meant as text, and run_glue fails on it.
bool is_unnamed(const std::string& column) {
  return column.starts_with("Unnamed: ");
}

// Returns the file and the line that defines the columns; for JSON this is the first row.
std::string place_of_columns(const Table& table) {
  if (!table.is_typed() || table.num_rows() == 0) return table.file_name();
  return fmt::format("{}:{}", table.file_name(), table.line(0));
}

std::string first_row_hint(const Table& table) {
  return table.is_typed()
             ? "\n  the keys of the first row are the columns: add the key there even if its value is empty"
             : "";
}

// Returns a hint for the most frequent cause of a missing column: tab-separated text in a .csv file.
std::string separator_hint(const Table& table) {
  if (table.num_columns() == 1 && table.columns()[0].find('\t') != std::string::npos) {
    return "\n  the header contains tabs: rename the file to .tsv if it is tab-separated";
  }
  if (table.num_columns() == 1 && table.columns()[0].find(';') != std::string::npos) {
    return "\n  the header contains semicolons: fields must be separated by commas (.csv) or tabs (.tsv)";
  }
  return "";
}

void require_column(const Table& table, const std::string& name) {
  if (table.find_column(name) < 0) {
    throw_error(ErrorCode::kBadData, "{}: expected a column '{}', found {}{}{}", place_of_columns(table),
                name, table.column_list(), first_row_hint(table), separator_hint(table));
  }
}

ColumnChoice named_columns(const Table& table, const ColumnOptions& options) {
  if (options.text.size() > 2) {
    throw_error(ErrorCode::kUsage, "{} text columns are given, but at most 2 (a text or a pair) are possible",
                options.text.size());
  }
  ColumnChoice choice;
  for (const std::string& name : options.text) {
    if (name == options.label) {
      throw_error(ErrorCode::kUsage, "the column '{}' is given both as text and as label", name);
    }
    require_column(table, name);
  }
  choice.first = options.text[0];
  if (options.text.size() == 2) {
    choice.second = options.text[1];
  }
  return choice;
}

ColumnChoice inferred_columns(const Table& table, const ColumnOptions& options) {
  std::vector<std::string> candidates;
  bool left_out = false;
  for (const std::string& column : table.columns()) {
    left_out = left_out || is_unnamed(column);
    if (column != options.label && !is_unnamed(column)) {
      candidates.push_back(column);
    }
  }
  if (candidates.empty()) {
    throw_error(ErrorCode::kBadData,
                "{}: expected a text column in addition to the label '{}', found {}; put the texts into "
                "columns such as sentence, or sentence1 and sentence2{}{}",
                place_of_columns(table), options.label, table.column_list(), first_row_hint(table),
                separator_hint(table));
  }
  const auto has = [&](const char* name) {
    return std::find(candidates.begin(), candidates.end(), name) != candidates.end();
  };
  ColumnChoice choice;
  if (has("sentence1") && has("sentence2")) {
    choice.first = "sentence1";
    choice.second = "sentence2";
    return choice;
  }
  choice.first = candidates[0];
  if (candidates.size() >= 2) {
    choice.second = candidates[1];
  }
  if (is_index_name(choice.first) || (choice.second.has_value() && is_index_name(*choice.second))) {
    choice.warning = fmt::format(
        "{}: the text is taken from '{}' and '{}' (the first two columns that are not '{}'), and one of them "
        "looks like an index: select the text columns with --text_column_names",
        table.file_name(), choice.first, choice.second.value_or(""), options.label);
  } else if (left_out) {
    choice.warning = fmt::format("{}: a column without a name is ignored", table.file_name());
  }
  return choice;
}

}  // namespace

bool is_index_name(std::string_view column) {
  return column == "id" || column == "idx" || column == "index" || column == "guid" || column == "ID";
}

void require_label_column(const Table& table, const std::string& label) {
  if (table.find_column(label) >= 0) return;
  throw_error(
      ErrorCode::kBadData,
      "{}: no column '{}' for the labels among {}; rename it, or select it with --label_column_name{}{}",
      place_of_columns(table), label, table.column_list(), first_row_hint(table), separator_hint(table));
}

ColumnChoice choose_columns(const Table& table, const ColumnOptions& options) {
  if (const std::optional<ColumnChoice> words = choose_word_columns(table, options)) return *words;
  ColumnChoice choice =
      options.text.empty() ? inferred_columns(table, options) : named_columns(table, options);
  choice.label = options.label;
  choice.has_label = table.find_column(options.label) >= 0;
  return choice;
}

}  // namespace plimsoll
