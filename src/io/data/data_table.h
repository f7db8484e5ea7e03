// A table of text cells as a data file holds it, before anyone knows what the columns mean. Every reader
// makes one. It is not a data frame: rows are only read, in order. Thread-safe once built. A Table owns its
// bytes.
//
// Memory: the bytes of the cells laid end to end, 8 bytes a cell, 8 a row, and 1 more a cell when kinds
// differ (JSON).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// What a cell was in the file. CSV and TSV know only kText, and kNull for a cell that a short row lacks.
enum class CellKind : uint8_t { kText, kInteger, kFloat, kBool, kNull, kList, kObject };

// "text", "an integer", "a list": for messages.
const char* cell_kind_name(CellKind kind);

class Table {
 public:
  Table() = default;
  // Invariants:
  //  1. Every row has columns().size() cells.
  //  2. Cell (r, c) ends where ends_[r * columns + c] says and begins where the one before it ends.
  //  3. lines_ has one entry a row.
  //  4. kinds_ is empty or has one entry a cell.
  Table(std::string file_name, uint64_t content_hash, std::vector<std::string> columns);

  const std::string& file_name() const { return file_name_; }
  // Of the file's bytes and of the rules that they were read by.
  uint64_t content_hash() const { return content_hash_; }
  const std::vector<std::string>& columns() const { return columns_; }
  int64_t num_columns() const { return static_cast<int64_t>(columns_.size()); }
  int64_t num_rows() const { return static_cast<int64_t>(lines_.size()); }

  // Requires: 0 <= row < num_rows(), 0 <= column < num_columns(). A list or an object is given as minified
  // JSON.
  std::string_view cell(int64_t row, int64_t column) const;
  CellKind kind(int64_t row, int64_t column) const;
  // The line of the file on which the row begins.
  int64_t line(int64_t row) const;
  // Index of the column of this name, or -1.
  int64_t find_column(std::string_view name) const;
  // "'a', 'b', 'c'", for messages.
  std::string column_list() const;
  // True if the file says what kind a cell is (JSON), so that "1" and 1 differ; false if all is text (CSV,
  // TSV).
  bool is_typed() const { return is_typed_; }
  void set_typed() { is_typed_ = true; }
  // Bytes held, capacities included.
  int64_t held_bytes() const;

  // For readers. begin_row, then one add_cell for each column.
  void begin_row(int64_t line) { lines_.push_back(line); }
  void add_cell(std::string_view text, CellKind kind);
  // For readers that compact a file in place: adopts the bytes, in which cells lie end to end. `ends` and
  // `lines` as in the invariants.
  void adopt(std::string bytes, std::vector<int64_t> ends, std::vector<int64_t> lines,
             std::vector<CellKind> kinds);
  void shrink_to_fit();

 private:
  std::string file_name_;
  uint64_t content_hash_ = 0;
  std::vector<std::string> columns_;
  std::string bytes_;
  std::vector<int64_t> ends_;
  std::vector<int64_t> lines_;
  std::vector<CellKind> kinds_;
  bool is_typed_ = false;
};

}  // namespace plimsoll
