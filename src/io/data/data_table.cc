#include "io/data/data_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "io/data/text_file.h"

namespace plimsoll {

const char* cell_kind_name(CellKind kind) {
  switch (kind) {
    case CellKind::kText:
      return "text";
    case CellKind::kInteger:
      return "an integer";
    case CellKind::kFloat:
      return "a float";
    case CellKind::kBool:
      return "true or false";
    case CellKind::kNull:
      return "null";
    case CellKind::kList:
      return "a list";
    case CellKind::kObject:
      return "an object";
    case CellKind::kInvalid:
      return "a value that is not JSON";
    case CellKind::kRepeated:
      return "a key that occurs twice";
  }
  return "unknown";
}

Table::Table(std::string file_name, uint64_t content_hash, std::vector<std::string> columns)
    : file_name_(std::move(file_name)), content_hash_(content_hash), columns_(std::move(columns)) {}

std::string_view Table::cell(int64_t row, int64_t column) const {
  const size_t index = static_cast<size_t>(row * num_columns() + column);
  PLIMSOLL_CHECK(index < ends_.size(), "cell ({}, {}) is outside the table, which has {} rows", row, column,
                 num_rows());
  const int64_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(bytes_).substr(static_cast<size_t>(begin),
                                         static_cast<size_t>(ends_[index] - begin));
}

CellKind Table::kind(int64_t row, int64_t column) const {
  return kinds_.empty() ? CellKind::kText : kinds_[static_cast<size_t>(row * num_columns() + column)];
}

int64_t Table::line(int64_t row) const {
  return lines_[static_cast<size_t>(row)];
}

int64_t Table::find_column(std::string_view name) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i] == name) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

void Table::add_late_column(std::string_view name, int64_t line) {
  const bool is_known = std::any_of(late_columns_.begin(), late_columns_.end(),
                                    [&](const LateColumn& column) { return column.name == name; });
  if (!is_known && late_columns_.size() < kMaxLateColumns) late_columns_.push_back({std::string(name), line});
}

std::string Table::column_list() const {
  std::string list;
  for (const std::string& column : columns_) {
    list += fmt::format("{}'{}'", list.empty() ? "" : ", ", column);
  }
  return list;
}

void fail_unreadable(const Table& table, int64_t row, int64_t column) {
  const std::string& name = table.columns()[static_cast<size_t>(column)];
  const std::string value = excerpt(table.cell(row, column));
  std::string problem;
  if (table.kind(row, column) == CellKind::kRepeated) {
    problem = fmt::format("the key '{}' occurs twice in one row; keep one of them", name);
  } else if (value.starts_with('\\')) {
    problem = fmt::format(
        "the text of column '{}' contains {}, half of a surrogate pair: it was cut in the middle of a "
        "character\n  write both halves, or the character itself in UTF-8",
        name, value);
  } else if (value.find_first_of("0123456789") != std::string::npos) {
    problem = fmt::format(
        "the number {} in column '{}' does not fit into 64 bits; put it in quotes if it is a text", value,
        name);
  } else {
    problem = fmt::format("{} is not JSON (column '{}'): write a finite number, or null for a missing one",
                          value, name);
  }
  throw_at_line(table.file_name(), table.line(row), "{}", problem);
}

int64_t Table::held_bytes() const {
  return static_cast<int64_t>(bytes_.capacity() + ends_.capacity() * sizeof(int64_t) +
                              lines_.capacity() * sizeof(int64_t) + kinds_.capacity());
}

void Table::add_cell(std::string_view text, CellKind kind) {
  bytes_ += text;
  ends_.push_back(static_cast<int64_t>(bytes_.size()));
  kinds_.push_back(kind);
}

void Table::adopt(std::string bytes, std::vector<int64_t> ends, std::vector<int64_t> lines,
                  std::vector<CellKind> kinds) {
  PLIMSOLL_CHECK(ends.size() == lines.size() * columns_.size(),
                 "a table must have rows x columns cells, but has {} cells in {} rows of {} columns",
                 ends.size(), lines.size(), columns_.size());
  PLIMSOLL_CHECK(kinds.empty() || kinds.size() == ends.size());
  bytes_ = std::move(bytes);
  ends_ = std::move(ends);
  lines_ = std::move(lines);
  kinds_ = std::move(kinds);
}

void Table::shrink_to_fit() {
  bytes_.shrink_to_fit();
  ends_.shrink_to_fit();
  lines_.shrink_to_fit();
  kinds_.shrink_to_fit();
}

}  // namespace plimsoll
