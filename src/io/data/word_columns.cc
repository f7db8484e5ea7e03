#include "io/data/data_columns.h"

#include <string>
#include <string_view>

#include "base/check.h"
#include "io/data/table_reader.h"
#include "io/data/text_columns.h"

namespace plimsoll {
namespace {

constexpr const char* kWhatToWrite =
    "\n  write JSON Lines with one sentence per row, {\"tokens\": [\"EU\", \"rejects\"], \"ner_tags\": "
    "[\"B-ORG\", \"O\"]}, or a .conll file with one word and its tag per line";

// Returns the index of the first row in which the column is not null, or nothing.
std::optional<int64_t> first_filled_row(const Table& table, int64_t column) {
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    if (table.kind(row, column) != CellKind::kNull) return row;
  }
  return std::nullopt;
}

bool is_list(const Table& table, int64_t column) {
  const std::optional<int64_t> row = first_filled_row(table, column);
  return row && table.kind(*row, column) == CellKind::kList;
}

bool is_word_list(const Table& table, int64_t column) {
  if (!is_list(table, column)) return false;
  const auto items = find_json_list(table.cell(*first_filled_row(table, column), column));
  return items && (items->empty() || items->front().kind == CellKind::kText);
}

class WordColumns {
 public:
  WordColumns(const Table& table, const ColumnOptions& options) : table_(table), options_(options) {}

  std::optional<ColumnChoice> choose() const {
    if (!table_.is_typed()) {
      if (options_.tagging.empty() && !has_lists_as_text()) return std::nullopt;
      fail("rows of words with tags are needed, and a CSV or TSV file cannot contain lists");
    }
    if (options_.text.size() == 2) return text_or_fail();
    const int64_t words = options_.text.empty() ? find_words() : find_named_words();
    if (words < 0) return text_or_fail();
    const int64_t tags = find_tags(words);
    if (tags < 0 && !may_lack_tags(words)) return text_or_fail();
    ColumnChoice choice;
    choice.has_words = true;
    choice.first = name(words);
    choice.has_label = tags >= 0;
    choice.label = choice.has_label ? name(tags) : options_.label;
    return choice;
  }

 private:
  const std::string& name(int64_t column) const { return table_.columns()[static_cast<size_t>(column)]; }
  bool is_label_named() const { return options_.label != ColumnOptions{}.label; }

  [[noreturn]] void fail(std::string_view problem) const {
    throw_error(ErrorCode::kBadData, "{}: {}, found {}{}", table_.file_name(), problem, table_.column_list(),
                kWhatToWrite);
  }

  // Handles a table without rows of words: throws an error if the user requested them, and otherwise returns nothing, which means
  // that the rows are texts.
  std::optional<ColumnChoice> text_or_fail() const {
    if (!options_.tagging.empty()) fail("expected a column of lists of words and one of lists of tags");
    return std::nullopt;
  }

  bool has_lists_as_text() const {
    if (!options_.text.empty() || table_.num_rows() == 0) return false;
    for (const char* words : {"tokens", "words"}) {
      const int64_t column = table_.find_column(words);
      if (column >= 0 && table_.cell(0, column).starts_with('[')) return true;
    }
    return false;
  }

  int64_t find_named_words() const {
    const int64_t column = table_.find_column(options_.text[0]);
    return column >= 0 && is_word_list(table_, column) ? column : -1;
  }

  int64_t find_words() const {
    for (const char* words : {"tokens", "words"}) {
      const int64_t column = table_.find_column(words);
      if (column >= 0 && is_word_list(table_, column)) return column;
    }
    // If a table has only one column of lists, these are lists of labels (multi-label), not words, unless words were requested.
    int64_t first = -1;
    int64_t num_lists = 0;
    for (int64_t column = 0; column < table_.num_columns(); ++column) {
      if (!is_list(table_, column)) continue;
      ++num_lists;
      if (first < 0 && is_word_list(table_, column) && !is_tag_name(name(column))) first = column;
    }
    if (first < 0 || (options_.tagging.empty() && has_texts_besides(first))) return -1;
    return num_lists >= 2 || !options_.tagging.empty() ? first : -1;
  }

  std::string tag_column() const { return (options_.tagging.empty() ? "ner" : options_.tagging) + "_tags"; }
  bool is_tag_name(const std::string& column) const {
    return column == options_.label || column == tag_column() || column == "labels" || column == "tags";
  }

  // Returns the index of the column that contains the tags of the words, or -1 if there is none. A label column without lists does not
  // contain tags but the label of a text.
  int64_t find_tags(int64_t words) const {
    const int64_t labels = table_.find_column(options_.label);
    if (labels >= 0 || is_label_named()) return labels >= 0 && is_list(table_, labels) ? labels : -1;
    for (const std::string& tags : {tag_column(), std::string("labels"), std::string("tags")}) {
      const int64_t column = table_.find_column(tags);
      if (column >= 0 && is_list(table_, column)) return column;
    }
    if (table_.is_conll()) return table_.num_columns() > 1 ? table_.num_columns() - 1 : -1;
    for (int64_t column = 0; column < table_.num_columns(); ++column) {
      if (column != words && is_list(table_, column)) return column;
    }
    return -1;
  }

  // A table for prediction may have words but no tags. Returns true if the column `words` is accepted as words nevertheless: if the user
  // requested words or named the column, if the file is CoNLL, or if no other column could be a label or a text.
  bool may_lack_tags(int64_t words) const {
    if (!options_.tagging.empty() || !options_.text.empty() || table_.is_conll()) return true;
    return table_.find_column(options_.label) < 0 && !has_texts_besides(words);
  }

  // Returns true if a column other than `words` contains texts. Columns that number the rows, such as "id", are ignored.
  bool has_texts_besides(int64_t words) const {
    for (int64_t column = 0; column < table_.num_columns(); ++column) {
      const std::optional<int64_t> row = first_filled_row(table_, column);
      const bool is_text = row && table_.kind(*row, column) == CellKind::kText;
      if (column != words && is_text && !is_index_name(name(column))) return true;
    }
    return false;
  }

  const Table& table_;
  const ColumnOptions& options_;
};

}  // namespace

std::optional<ColumnChoice> choose_word_columns(const Table& table, const ColumnOptions& options) {
  return WordColumns(table, options).choose();
}

}  // namespace plimsoll
