#include "io/data/text_split.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

int64_t expect_column(const Table& table, const ColumnChoice& columns, const std::string& name) {
  const int64_t found = table.find_column(name);
  if (found < 0) {
    const std::string second = columns.second.has_value() ? fmt::format(", '{}'", *columns.second) : "";
    const std::string label = columns.has_label ? fmt::format(", '{}'", columns.label) : "";
    throw_error(ErrorCode::kBadData, "{}: column '{}' is missing: expected '{}'{}{}, found {}",
                table.file_name(), name, columns.first, second, label, table.column_list());
  }
  return found;
}

// Throws an error if a later row has one of the columns `names` but the first row does not: the column would not be read.
void refuse_late_columns(const Table& table, const std::vector<std::string>& names) {
  for (const Table::LateColumn& late : table.late_columns()) {
    if (std::ranges::find(names, late.name) == names.end()) continue;
    throw_at_line(
        table.file_name(), late.line,
        "the row has '{}', but the first row does not have it, and the first row determines the columns; "
        "write '{}' in every row, or in none",
        late.name, late.name);
  }
}

}  // namespace

TextSplit TextSplit::with_columns(Table table, const ColumnChoice& columns) {
  TextSplit split;
  split.first_ = expect_column(table, columns, columns.first);
  split.second_ = columns.second.has_value() ? expect_column(table, columns, *columns.second) : -1;
  split.label_ = columns.has_label ? expect_column(table, columns, columns.label) : -1;
  split.table_ = std::move(table);
  return split;
}

void TextSplit::check_text(int64_t table_row, int64_t column) {
  const CellKind kind = table_.kind(table_row, column);
  if (kind == CellKind::kText) {
    if (table_.cell(table_row, column).empty() && num_empty_++ == 0) {
      first_empty_line_ = table_.line(table_row);
    }
    return;
  }
  if (is_unreadable(kind)) fail_unreadable(table_, table_row, column);
  const std::string& name = table_.columns()[static_cast<size_t>(column)];
  if (kind == CellKind::kNull) {
    throw_at_line(
        table_.file_name(), table_.line(table_row),
        "the text column '{}' is null or missing in this row\n  remove the row, or write an empty string",
        name);
  }
  throw_at_line(table_.file_name(), table_.line(table_row),
                "expected text in column '{}', found {}: {}\n  put it in quotes if it is a text, or select "
                "the text columns with --text_column_names (found {})",
                name, cell_kind_name(kind), excerpt(table_.cell(table_row, column)), table_.column_list());
}

void TextSplit::check_messages(int64_t table_row) const {
  for (const int64_t column : {first_, second_}) {
    if (column < 0 || table_.kind(table_row, column) == CellKind::kList) continue;
    if (is_unreadable(table_.kind(table_row, column))) fail_unreadable(table_, table_row, column);
    throw_at_line(table_.file_name(), table_.line(table_row),
                  "expected a list of messages in column '{}', found {}: {}\n  correct or remove the row",
                  table_.columns()[static_cast<size_t>(column)],
                  cell_kind_name(table_.kind(table_row, column)), excerpt(table_.cell(table_row, column)));
  }
  for (const char* name : {"tools", "chat_template_kwargs"}) {
    const int64_t column = table_.find_column(name);
    if (column < 0 || table_.kind(table_row, column) == CellKind::kNull) continue;
    const std::string_view cell = table_.cell(table_row, column);
    if (cell.empty() || cell == "[]" || cell == "{}") continue;
    throw_at_line(table_.file_name(), table_.line(table_row),
                  "the conversation has \"{}\", which no chat template of Plimsoll renders: {}\n  remove the "
                  "column, or "
                  "the row",
                  name, excerpt(cell));
  }
}

TextSplit::TextSplit(Table table, const ColumnChoice& columns) {
  *this = with_columns(std::move(table), columns);
  rows_.resize(index(table_.num_rows()));
  std::iota(rows_.begin(), rows_.end(), 0);
  if (columns.has_ids) {
    refuse_late_columns(table_, token_id_columns(columns));
    ids_ = read_token_rows(table_,
                           {.ids = first_,
                            .types = table_.find_column("token_type_ids"),
                            .mask = table_.find_column("attention_mask"),
                            .positions = table_.find_column("position_ids"),
                            .labels = columns.has_token_labels ? table_.find_column(columns.label) : -1});
    has_ids_ = true;
    return;
  }
  if (columns.has_words) {
    words_ = read_tagged_words(table_, first_, label_);
    has_words_ = true;
    return;
  }
  chat_ = columns.chat;
  for (const int64_t row : rows_) {
    if (chat_ == ChatColumns::kMessages || chat_ == ChatColumns::kPromptMessages) {
      check_messages(row);
      continue;
    }
    check_text(row, first_);
    if (second_ >= 0) {
      check_text(row, second_);
    }
  }
}

TextSplit TextSplit::skipping_incomplete_rows(Table table, const ColumnChoice& columns) {
  TextSplit split = with_columns(std::move(table), columns);
  const auto lacks = [&](int64_t row, int64_t column) {
    return column >= 0 && split.table_.kind(row, column) == CellKind::kNull;
  };
  for (int64_t row = 0; row < split.table_.num_rows(); ++row) {
    if (lacks(row, split.first_) || lacks(row, split.second_) || lacks(row, split.label_)) {
      if (split.num_skipped_++ == 0) {
        split.first_skipped_line_ = split.table_.line(row);
      }
      continue;
    }
    split.check_text(row, split.first_);
    if (split.second_ >= 0) {
      split.check_text(row, split.second_);
    }
    split.rows_.push_back(row);
  }
  if (split.rows_.empty()) {
    throw_error(ErrorCode::kBadData, "{}: no row has all required columns; check the columns of the file",
                split.table_.file_name());
  }
  return split;
}

std::optional<std::string_view> TextSplit::second_text(int64_t row) const {
  if (second_ < 0) {
    return std::nullopt;
  }
  return table_.cell(rows_[index(row)], second_);
}

std::optional<int64_t> TextSplit::first_left_padded_line() const {
  if (ids_.first_left_padded < 0) return std::nullopt;
  return table_.line(ids_.first_left_padded);
}

std::pair<int32_t, int64_t> TextSplit::largest_type() const {
  std::pair<int32_t, int64_t> found{0, 0};
  for (const int64_t row : rows_) {
    for (int64_t i = ids_.offsets[index(row)]; i < ids_.offsets[index(row) + 1] && !ids_.types.empty(); ++i) {
      if (ids_.types[index(i)] > found.first) found = {ids_.types[index(i)], table_.line(row)};
    }
  }
  return found;
}

void TextSplit::require_readable_labels() const {
  if (!table_.is_typed()) return;
  for (const int64_t row : rows_) {
    if (is_unreadable(table_.kind(row, label_))) fail_unreadable(table_, row, label_);
  }
}

uint64_t TextSplit::text_hash() const {
  const uint64_t parts[] = {table_.content_hash(), static_cast<uint64_t>(first_),
                            static_cast<uint64_t>(second_), hash64(std::as_bytes(std::span(rows_)))};
  return hash64(std::as_bytes(std::span(parts)));
}

void TextSplit::keep_first(int64_t count) {
  PLIMSOLL_CHECK(count >= 1);
  rows_.resize(index(std::min(count, num_rows())));
}

}  // namespace plimsoll
