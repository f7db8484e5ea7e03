#include "io/data/data_table.h"

#include <utility>

#include "base/check.h"

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
  }
  return "unknown";
}

Table::Table(std::string file_name, uint64_t content_hash, std::vector<std::string> columns)
    : file_name_(std::move(file_name)), content_hash_(content_hash), columns_(std::move(columns)) {}

std::string_view Table::cell(int64_t row, int64_t column) const {
  const size_t index = static_cast<size_t>(row * num_columns() + column);
  PLIMSOLL_CHECK(index < ends_.size(), "cell ({}, {}) of a table of {} rows", row, column, num_rows());
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

std::string Table::column_list() const {
  std::string list;
  for (const std::string& column : columns_) {
    list += fmt::format("{}'{}'", list.empty() ? "" : ", ", column);
  }
  return list;
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
  PLIMSOLL_CHECK(ends.size() == lines.size() * columns_.size(), "{} cells in {} rows of {} columns",
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
