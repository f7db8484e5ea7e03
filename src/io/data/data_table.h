// A table of text cells as stored in a data file, before the meaning of the columns is known. Every reader
// produces one. It is not a data frame: rows are only read, in order. Thread-safe after construction. A Table
// owns its bytes.
//
// Memory: the concatenated bytes of the cells, 8 bytes per cell, 8 per row, and 1 more per cell if the cells
// have different kinds (JSON).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

// The type of a cell in the file. In CSV and TSV files all cells are kText, except that cells missing at the end of a short row are
// kNull.
enum class CellKind : uint8_t {
  kText,
  kInteger,
  kFloat,
  kBool,
  kNull,
  kList,
  kObject,
  kInvalid,  // JSON: NaN, a number beyond 64 bits or half a surrogate pair; the cell contains the source text
  kRepeated,  // JSON: the key of the cell occurs twice in its row
};

// Returns true for a cell whose value cannot be used. Such a cell is an error only if its column is used.
constexpr bool is_unreadable(CellKind kind) {
  return kind == CellKind::kInvalid || kind == CellKind::kRepeated;
}

// Returns the name of a kind for messages: "text", "an integer", "a list".
const char* cell_kind_name(CellKind kind);

class Table {
 public:
  Table() = default;
  // Invariants:
  //  1. Every row has columns().size() cells.
  //  2. Cell (r, c) ends at ends_[r * columns + c] and begins at the end of the cell before it.
  //  3. lines_ has one entry per row.
  //  4. kinds_ is empty or has one entry per cell.
  Table(std::string file_name, uint64_t content_hash, std::vector<std::string> columns);

  const std::string& file_name() const { return file_name_; }
  // Returns a hash of the bytes of the file and of the options with which it was read.
  uint64_t content_hash() const { return content_hash_; }
  const std::vector<std::string>& columns() const { return columns_; }
  int64_t num_columns() const { return static_cast<int64_t>(columns_.size()); }
  int64_t num_rows() const { return static_cast<int64_t>(lines_.size()); }

  // Return the text and the kind of a cell. A list or an object is given as minified JSON. Requires: 0 <= row
  // < num_rows(), 0 <= column < num_columns().
  std::string_view cell(int64_t row, int64_t column) const;
  CellKind kind(int64_t row, int64_t column) const;
  // Returns the line of the file on which the row begins.
  int64_t line(int64_t row) const;
  // Returns the index of the column with this name, or -1.
  int64_t find_column(std::string_view name) const;
  // Lists the columns for messages: "'a', 'b', 'c'".
  std::string column_list() const;
  // Returns true if the file defines the kind of a cell (JSON), so that "1" and 1 differ, and false if all
  // cells are text (CSV, TSV).
  bool is_typed() const { return is_typed_; }
  void set_typed() { is_typed_ = true; }
  // Returns the character between the fields of a CSV or TSV file, and 0 for other formats.
  char delimiter() const { return delimiter_; }
  void set_delimiter(char delimiter) { delimiter_ = delimiter; }
  // The size in bytes of the decompressed text if the file was compressed; otherwise 0.
  int64_t text_bytes() const { return text_bytes_; }
  void set_text_bytes(int64_t bytes) { text_bytes_ = bytes; }
  // The names of cells that occur only in later rows (JSON), each with the line of the first row that contains it. The table has no column
  // for them, because the first row determines the columns. Cells that are null or empty do not count. At most kMaxLateColumns are
  // remembered.
  struct LateColumn {
    std::string name;
    int64_t line = 0;
  };
  static constexpr size_t kMaxLateColumns = 64;
  const std::vector<LateColumn>& late_columns() const { return late_columns_; }
  void add_late_column(std::string_view name, int64_t line);
  // Warnings for the user about suspicious parts of the file, as complete sentences with file and line.
  const std::vector<std::string>& warnings() const { return warnings_; }
  void add_warning(std::string warning) { warnings_.push_back(std::move(warning)); }
  // Returns true for a CoNLL file, which has one word per line. A cell of the table is then a list of words or tags.
  bool is_conll() const { return is_conll_; }
  void set_conll() { is_conll_ = true; }
  // Returns the number of bytes in memory, including unused capacity.
  int64_t held_bytes() const;

  // Readers that append rows call begin_row() and then add_cell() once per column.
  void begin_row(int64_t line) { lines_.push_back(line); }
  void add_cell(std::string_view text, CellKind kind);
  // Readers that compact the cells within the memory of the file pass the bytes of the concatenated cells. `ends` and `lines` must
  // satisfy the invariants above.
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
  std::vector<std::string> warnings_;
  std::vector<LateColumn> late_columns_;
  int64_t text_bytes_ = 0;
  char delimiter_ = 0;
  bool is_typed_ = false;
  bool is_conll_ = false;
};

// Throws kBadData with file:line and the reason why the cell cannot be read. Requires: its kind
// is_unreadable().
[[noreturn]] void fail_unreadable(const Table& table, int64_t row, int64_t column);

}  // namespace plimsoll
