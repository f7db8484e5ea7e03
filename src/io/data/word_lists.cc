#include "io/data/word_lists.h"

#include <optional>

#include "base/check.h"
#include "base/units.h"
#include "io/data/label_cells.h"
#include "io/data/table_reader.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

class TaggedWordReader {
 public:
  TaggedWordReader(const Table& table, int64_t word_column, int64_t tag_column)
      : table_(table), word_column_(word_column), tag_column_(tag_column) {}

  TaggedWords read() && {
    for (row_ = 0; row_ < table_.num_rows(); ++row_) {
      read_words();
      if (tag_column_ >= 0) read_tags();
    }
    return std::move(result_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw_at_line(table_.file_name(), table_.line(row_), "{}",
                  fmt::format(format, std::forward<Args>(args)...));
  }

  const std::string& column_name(int64_t column) const {
    return table_.columns()[static_cast<size_t>(column)];
  }

  std::vector<JsonItem> list_of(int64_t column, const char* what, const char* example) const {
    const CellKind kind = table_.kind(row_, column);
    if (is_unreadable(kind)) fail_unreadable(table_, row_, column);
    if (kind != CellKind::kList) {
      fail("expected a list of {} in column '{}', found {}{}\n  write {}", what, column_name(column),
           cell_kind_name(kind), kind == CellKind::kNull ? "" : ": " + excerpt(table_.cell(row_, column)),
           example);
    }
    return find_json_list(table_.cell(row_, column)).value();
  }

  void read_words() {
    const std::vector<JsonItem> items = list_of(word_column_, "words", R"(["EU", "rejects"])");
    if (items.empty()) {
      fail("the list of words in column '{}' is empty; remove the row", column_name(word_column_));
    }
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].kind != CellKind::kText) {
        fail("expected text as word {} of column '{}', found {}{}\n  put every word in quotes", i + 1,
             column_name(word_column_), cell_kind_name(items[i].kind),
             items[i].text.empty() ? "" : ": " + excerpt(items[i].text));
      }
      result_.words.add_item(items[i].text);
    }
    result_.words.end_row();
  }

  void read_tags() {
    if (table_.kind(row_, tag_column_) == CellKind::kNull) {
      result_.tags.end_row();
      return;
    }
    const std::vector<JsonItem> items = list_of(tag_column_, "tags", R"(["B-ORG", "O"] or [3, 0])");
    const int64_t num_words = result_.words.size(row_);
    if (static_cast<int64_t>(items.size()) != num_words) {
      fail(
          "the row has {} in '{}', but {} in '{}'; every word needs one tag\n  if the rows are texts, select "
          "their column with --text_column_names",
          counted(num_words, "word"), column_name(word_column_), counted(items.size(), "tag"),
          column_name(tag_column_));
    }
    for (size_t i = 0; i < items.size(); ++i) {
      check_tag(items[i], i);
      result_.tags.add_item(items[i].text);
    }
    result_.tags.end_row();
  }

  void check_tag(const JsonItem& item, size_t i) {
    if (item.kind != CellKind::kText && item.kind != CellKind::kInteger) {
      fail("expected a name or an integer as tag {} of column '{}', found {}{}", i + 1,
           column_name(tag_column_), cell_kind_name(item.kind),
           item.text.empty() ? "" : ": " + excerpt(item.text));
    }
    if (item.kind == CellKind::kText && item.text.empty()) {
      fail("tag {} of column '{}' is an empty name; write O for a word outside of every entity", i + 1,
           column_name(tag_column_));
    }
    if (item.kind == CellKind::kInteger && !as_integer(item.text)) {
      fail("tag {} of column '{}' is {}, which is too large for a class", i + 1, column_name(tag_column_),
           item.text);
    }
    if (!first_kind_) {
      first_kind_ = item.kind;
      first_tag_ = item.text;
      first_line_ = table_.line(row_);
      result_.integer_tags = item.kind == CellKind::kInteger;
    }
    if (item.kind != *first_kind_) {
      fail(
          "tag {} of column '{}' is {} ({}), but the first tag, in line {}, is {} ({}): use names or "
          "integers, not both",
          i + 1, column_name(tag_column_), cell_kind_name(item.kind), excerpt(item.text), first_line_,
          cell_kind_name(*first_kind_), excerpt(first_tag_));
    }
  }

  const Table& table_;
  const int64_t word_column_;
  const int64_t tag_column_;
  TaggedWords result_;
  int64_t row_ = 0;
  std::optional<CellKind> first_kind_;
  std::string first_tag_;
  int64_t first_line_ = 0;
};

}  // namespace

std::string_view WordLists::item(int64_t row, int64_t i) const {
  PLIMSOLL_CHECK(i >= 0 && i < size(row), "item {} does not exist in a row of {} items", i, size(row));
  const auto index = static_cast<size_t>(begin_of_row(row) + i);
  const int64_t begin = index == 0 ? 0 : item_ends_[index - 1];
  return std::string_view(bytes_).substr(static_cast<size_t>(begin),
                                         static_cast<size_t>(item_ends_[index] - begin));
}

int64_t WordLists::held_bytes() const {
  return static_cast<int64_t>(bytes_.capacity() +
                              (item_ends_.capacity() + row_ends_.capacity()) * sizeof(int64_t));
}

void WordLists::add_item(std::string_view item) {
  bytes_ += item;
  item_ends_.push_back(static_cast<int64_t>(bytes_.size()));
}

TaggedWords read_tagged_words(const Table& table, int64_t word_column, int64_t tag_column) {
  return TaggedWordReader(table, word_column, tag_column).read();
}

}  // namespace plimsoll
