#include "io/data/table_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "base/hash.h"
#include "base/units.h"
#include "io/data/label_cells.h"
#include "io/data/written_list.h"

namespace plimsoll {
namespace {

int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; });
}

// Returns true if a quoted cell with line ends looks like rows that an unpaired quote joined: each line in it has as many delimiters as a
// row. A real text with commas rarely has exactly these numbers, and has blanks after the commas. In a tab-separated file, any tab inside
// a cell with line ends is suspicious, because texts hardly contain tabs.
// A list in brackets is not suspicious: NumPy writes a long vector over several lines.
bool looks_like_rows(std::string_view cell, char delimiter, size_t num_columns, size_t column) {
  const auto num_delimiters = [&](std::string_view line) {
    return static_cast<size_t>(std::count(line.begin(), line.end(), delimiter));
  };
  if (is_bracketed(cell)) return false;
  if (delimiter == '\t') return num_delimiters(cell) > 0;
  if (cell.find(std::string{delimiter, ' '}) != std::string_view::npos) return false;
  size_t end = cell.find('\n');
  if (end == std::string_view::npos || num_delimiters(cell.substr(0, end)) != num_columns - 1 - column) {
    return false;
  }
  while (true) {
    cell.remove_prefix(end + 1);
    end = cell.find('\n');
    if (end == std::string_view::npos) return num_delimiters(cell) < num_columns;
    const std::string_view line = cell.substr(0, end);
    if (line.find_first_not_of('\r') != std::string_view::npos && num_delimiters(line) != num_columns - 1) {
      return false;
    }
  }
}

// Parses the text in one pass. Each cell is moved towards the front of the memory that contains the text. A cell is never longer than its
// source in the text, so the write position never passes the read position.
class CsvParser {
 public:
  CsvParser(TextFile& file, const CsvOptions& options)
      : name_(file.name), text_(file.bytes), options_(options) {
    stops_[static_cast<unsigned char>(options.delimiter)] = true;
    stops_[static_cast<unsigned char>('\n')] = true;
    stops_[static_cast<unsigned char>('\r')] = true;
  }

  void read_header();
  void read_rows();

  std::vector<std::string> columns;
  std::vector<int64_t> ends;
  std::vector<int64_t> lines;
  std::vector<CellKind> kinds;
  size_t written() const { return write_; }
  void add_warnings(Table& table) const;

 private:
  enum class FieldEnd { kDelimiter, kLine, kFile };

  bool skip_empty_lines();
  FieldEnd read_field();
  FieldEnd read_plain();
  FieldEnd read_quoted();
  FieldEnd end_field();
  void consume_line_end();
  void finish_row(int64_t num_fields, size_t row_begin, int64_t line);
  std::string format_row(int64_t num_fields, size_t row_begin) const;
  std::vector<std::string_view> fields_of_row(int64_t num_fields, size_t row_begin) const;
  std::string ragged_advice(const std::vector<std::string_view>& fields) const;
  [[noreturn]] void fail_ragged(int64_t num_fields, size_t row_begin, int64_t line) const;
  [[noreturn]] void fail_open_quote(TextPlace opened, size_t cell_begin) const;
  void note_continued(int64_t line, size_t cell_begin);
  void note_rows_in_cell(int64_t first_line, size_t cell_begin);

  bool at_line_end() const { return text_[read_] == '\n' || text_[read_] == '\r'; }

  const std::string& name_;
  std::string& text_;
  const CsvOptions& options_;
  std::array<bool, 256> stops_{};
  size_t read_ = 0;
  size_t write_ = 0;
  TextPlace place_;
  int64_t header_tabs_ = 0;
  std::string header_;  // the first row of the file, with the delimiters between its fields
  // Number of cells with text after their closing quote. For the warning, the next two members contain the line and the text of the first
  // such cell.
  int64_t num_continued_ = 0;
  int64_t continued_line_ = 0;
  std::string continued_cell_;
  // Number of quoted cells that probably contain several rows because of an unpaired quote. For the warning, the next two members contain
  // the first and the last line of the first such cell.
  int64_t num_swallowing_ = 0;
  int64_t swallowing_line_ = 0;
  int64_t swallowing_end_ = 0;
};

void CsvParser::consume_line_end() {
  if (text_[read_] == '\r' && read_ + 1 < text_.size() && text_[read_ + 1] == '\n') {
    ++read_;
  }
  ++read_;
  ++place_.line;
  place_.column = 1;
}

// Skips empty lines. Returns false if the text ends after them.
bool CsvParser::skip_empty_lines() {
  while (read_ < text_.size() && at_line_end()) {
    consume_line_end();
  }
  return read_ < text_.size();
}

// Determines what ends the field at the read position, and moves the read position past it. Requires: the read position is at a delimiter,
// a line end or the end of the text.
CsvParser::FieldEnd CsvParser::end_field() {
  if (read_ == text_.size()) {
    return FieldEnd::kFile;
  }
  if (text_[read_] == options_.delimiter) {
    ++read_;
    ++place_.column;
    return FieldEnd::kDelimiter;
  }
  consume_line_end();
  return FieldEnd::kLine;
}

CsvParser::FieldEnd CsvParser::read_plain() {
  const size_t begin = read_;
  while (read_ < text_.size() && !stops_[static_cast<unsigned char>(text_[read_])]) {
    ++read_;
  }
  place_.column += code_points(std::string_view(text_).substr(begin, read_ - begin));
  std::memmove(text_.data() + write_, text_.data() + begin, read_ - begin);
  write_ += read_ - begin;
  return end_field();
}

CsvParser::FieldEnd CsvParser::read_quoted() {
  const TextPlace opened = place_;
  const size_t cell_begin = write_;
  ++read_;
  ++place_.column;
  while (read_ < text_.size()) {
    const char byte = text_[read_];
    if (byte == '"') {
      const bool doubled = read_ + 1 < text_.size() && text_[read_ + 1] == '"';
      if (!doubled) {
        ++read_;
        ++place_.column;
        note_rows_in_cell(opened.line, cell_begin);
        if (read_ == text_.size() || stops_[static_cast<unsigned char>(text_[read_])]) return end_field();
        const int64_t line = place_.line;
        const FieldEnd end = read_plain();
        note_continued(line, cell_begin);
        return end;
      }
      ++read_;
      ++place_.column;
    }
    const bool lone_cr = byte == '\r' && (read_ + 1 >= text_.size() || text_[read_ + 1] != '\n');
    if (byte == '\n' || lone_cr) {
      ++place_.line;
      place_.column = 1;
    } else if ((static_cast<unsigned char>(byte) & 0xC0u) != 0x80u) {
      ++place_.column;
    }
    text_[write_++] = byte;
    ++read_;
  }
  fail_open_quote(opened, cell_begin);
}

void CsvParser::note_continued(int64_t line, size_t cell_begin) {
  const std::string_view cell = std::string_view(text_).substr(cell_begin, write_ - cell_begin);
  // A blank between the closing quote and the delimiter is not worth a warning.
  if (cell.empty() || cell.find_last_not_of(" \t") + 1 < cell.size()) return;
  if (num_continued_++ == 0) {
    continued_line_ = line;
    continued_cell_ = excerpt(cell);
  }
}

// Remembers a quoted cell that looks like several rows, for a warning after the file was read.
void CsvParser::note_rows_in_cell(int64_t first_line, size_t cell_begin) {
  if (columns.size() < 2 || place_.line == first_line) return;
  const size_t column = ends.size() % columns.size();
  const std::string_view cell = std::string_view(text_).substr(cell_begin, write_ - cell_begin);
  if (!looks_like_rows(cell, options_.delimiter, columns.size(), column)) return;
  if (num_swallowing_++ == 0) {
    swallowing_line_ = first_line;
    swallowing_end_ = place_.line;
  }
}

void CsvParser::add_warnings(Table& table) const {
  constexpr const char* kAdvice = "if quotes are ordinary characters in this file, use --quoting none";
  const auto others = [](int64_t count) {
    return count > 1 ? fmt::format(" (and {} more)", count - 1) : std::string();
  };
  if (num_swallowing_ > 0) {
    table.add_warning(fmt::format(
        "{}:{}: the quote that opens a cell here is closed in line {}, and the cell looks like {} rows{}; {}",
        name_, swallowing_line_, swallowing_end_, swallowing_end_ - swallowing_line_ + 1,
        others(num_swallowing_), kAdvice));
  }
  if (num_continued_ > 0) {
    table.add_warning(
        fmt::format("{}:{}: a cell begins with a quoted part and is read without these quotes: {}{}; {}",
                    name_, continued_line_, continued_cell_, others(num_continued_), kAdvice));
  }
}

CsvParser::FieldEnd CsvParser::read_field() {
  const bool quoted = options_.quotes == QuoteRule::kRfc4180 && read_ < text_.size() && text_[read_] == '"';
  const FieldEnd end = quoted ? read_quoted() : read_plain();
  ends.push_back(static_cast<int64_t>(write_));
  return end;
}

void CsvParser::fail_open_quote(TextPlace opened, size_t cell_begin) const {
  std::string hint =
      "write a quote inside a quoted field twice (\"\"); if quotes are ordinary characters in this file, use "
      "--quoting none";
  if (options_.delimiter == ',' && header_tabs_ > 0) {
    hint = fmt::format(
        "check that the file is CSV (it has {} {} in its header: rename it to .tsv if it is tab-separated)",
        header_tabs_, header_tabs_ == 1 ? "tab" : "tabs");
  }
  throw_at_line(name_, opened.line, "quote opened at column {} is never closed\n  the field begins: {}\n  {}",
                opened.column, excerpt(std::string_view(text_).substr(cell_begin, write_ - cell_begin)),
                hint);
}

// Returns the text of a row for messages: its fields with delimiters between them. The delimiters are added again, because parsing has
// removed them from the text.
std::string CsvParser::format_row(int64_t num_fields, size_t row_begin) const {
  return fmt::format("{}",
                     fmt::join(fields_of_row(num_fields, row_begin), std::string(1, options_.delimiter)));
}

// Returns the fields of the row that was read last.
std::vector<std::string_view> CsvParser::fields_of_row(int64_t num_fields, size_t row_begin) const {
  std::vector<std::string_view> fields;
  size_t begin = row_begin;
  for (size_t i = ends.size() - static_cast<size_t>(num_fields); i < ends.size(); ++i) {
    const auto end = static_cast<size_t>(ends[i]);
    fields.push_back(std::string_view(text_).substr(begin, end - begin));
    begin = end;
  }
  return fields;
}

// Returns what to change in the file if a row has another number of fields than the header. The causes are those that occur most: another
// separator, a first line that is no header, and quotes that do not enclose a field by the rules of RFC 4180.
std::string CsvParser::ragged_advice(const std::vector<std::string_view>& fields) const {
  if (std::string other = separator_advice(header_, options_.delimiter); !other.empty()) return other;
  const std::string delimiter = options_.delimiter == '\t' ? "tab" : "comma";
  if (header_.starts_with('#') || header_.starts_with("//") || header_.starts_with('%')) {
    return fmt::format("the first line is read as the header: remove the comment '{}'", excerpt(header_));
  }
  if (fields.size() < columns.size()) {
    return "put a field that contains a line end in double quotes, or add the missing fields";
  }
  for (const std::string_view field : fields) {
    const size_t first = field.find_first_not_of(' ');
    if (first != std::string_view::npos && first > 0 && field[first] == '"') {
      return fmt::format("remove the blank before the quote: a quoted field begins directly after the {}",
                         delimiter);
    }
  }
  for (const std::string_view field : fields) {
    if (field.find("\\\"") != std::string_view::npos) {
      return "write a quote inside a quoted field twice (\"\") instead of after a backslash (\\\")";
    }
    for (const std::string_view quote : {"'", "\u201c", "\u2018", "`", "\u00ab"}) {
      if (!field.starts_with(quote)) continue;
      return fmt::format("enclose a field that contains a {} in double quotes (\") instead of {}", delimiter,
                         quote);
    }
  }
  if (fields.back().empty() && fields.size() == columns.size() + 1) {
    return fmt::format("remove the {} at the end of the row, or end the header with one too", delimiter);
  }
  return fmt::format("put a field that contains a {} in double quotes", delimiter);
}

void CsvParser::fail_ragged(int64_t num_fields, size_t row_begin, int64_t line) const {
  std::string expected;
  for (const std::string& column : columns) {
    expected += fmt::format("{}'{}'", expected.empty() ? "" : ", ", column);
  }
  throw_at_line(name_, line, "this row has {} {}, but the header has {}: {}\n  the row's text: {}\n  {}",
                num_fields, num_fields == 1 ? "field" : "fields", columns.size(), expected,
                excerpt(format_row(num_fields, row_begin)),
                ragged_advice(fields_of_row(num_fields, row_begin)));
}

void CsvParser::finish_row(int64_t num_fields, size_t row_begin, int64_t line) {
  const auto expected = static_cast<int64_t>(columns.size());
  lines.push_back(line);
  if (options_.ragged == RaggedRule::kFill) {
    for (int64_t i = 0; i < expected; ++i) {
      kinds.push_back(i < num_fields ? CellKind::kText : CellKind::kNull);
    }
    for (; num_fields < expected; ++num_fields) {
      ends.push_back(static_cast<int64_t>(write_));
    }
    ends.resize(lines.size() * columns.size());
    write_ = static_cast<size_t>(ends.back());
  } else if (num_fields != expected) {
    fail_ragged(num_fields, row_begin, line);
  }
}

void CsvParser::read_header() {
  if (options_.header == HeaderRule::kGiven) {
    columns = options_.given_columns;
    PLIMSOLL_CHECK(!columns.empty());
    return;
  }
  if (!skip_empty_lines()) {
    throw_error(ErrorCode::kBadData, "{}: the file has only empty lines; check that it is complete", name_);
  }
  const int64_t line = place_.line;
  while (read_field() == FieldEnd::kDelimiter) {
  }
  header_ = format_row(static_cast<int64_t>(ends.size()), 0);
  if (header_.starts_with("{'") || header_.starts_with("[{'")) {
    throw_at_line(name_, line,
                  "the file contains dictionaries as Python prints them: {}\n  write the rows with pandas' "
                  "DataFrame.to_csv(path, index=False), or each row with json.dumps() into a .jsonl file",
                  excerpt(header_));
  }
  if (header_.starts_with("{\"") || header_.starts_with("[{")) {
    throw_at_line(name_, line, "the file contains JSON: {}\n  rename it to {}", excerpt(header_),
                  header_.starts_with('{') ? ".jsonl" : ".json");
  }
  int64_t begin = 0;
  for (const int64_t end : ends) {
    columns.emplace_back(text_, static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    begin = end;
    header_tabs_ += std::count(columns.back().begin(), columns.back().end(), '\t');
    if (columns.back().empty()) {
      // pandas writes the index of a table as a column with an empty name. When pandas reads such a column, it calls it "Unnamed: N".
      columns.back() = fmt::format("Unnamed: {}", columns.size() - 1);
    }
  }
  ends.clear();
  write_ = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (std::find(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(i), columns[i]) !=
        columns.begin() + static_cast<std::ptrdiff_t>(i)) {
      if (is_value_like(columns[i]))
        throw_at_line(name_, line, "{}", missing_header_advice(columns[i], std::ssize(columns)));
      throw_at_line(name_, line, "two columns of the header have the name '{}': rename one", columns[i]);
    }
  }
}

void CsvParser::read_rows() {
  while (skip_empty_lines()) {
    const int64_t line = place_.line;
    const size_t row_begin = write_;
    int64_t num_fields = 1;
    while (read_field() == FieldEnd::kDelimiter) {
      ++num_fields;
    }
    finish_row(num_fields, row_begin, line);
  }
}

}  // namespace

Table read_csv(TextFile file, const CsvOptions& options) {
  // The same bytes give different texts with different options, so the hash that caches use must include the
  // options.
  const uint64_t rules[] = {file.content_hash, static_cast<uint64_t>(options.delimiter),
                            static_cast<uint64_t>(options.quotes), static_cast<uint64_t>(options.header),
                            static_cast<uint64_t>(options.ragged)};
  CsvParser parser(file, options);
  parser.read_header();
  parser.read_rows();
  Table table(file.name, hash64(std::as_bytes(std::span(rules))), parser.columns);
  if (parser.lines.empty()) {
    throw_error(ErrorCode::kBadData, "{}: the file has a header ({}) but no rows; check that it is complete",
                file.name, table.column_list());
  }
  file.bytes.resize(parser.written());
  table.adopt(std::move(file.bytes), std::move(parser.ends), std::move(parser.lines),
              std::move(parser.kinds));
  table.shrink_to_fit();
  table.set_delimiter(options.delimiter);
  parser.add_warnings(table);
  return table;
}

std::string other_separator(std::string_view header, char delimiter) {
  const auto count = [&](char letter) { return std::count(header.begin(), header.end(), letter); };
  constexpr std::pair<char, const char*> kSeparators[] = {
      {';', "semicolons"}, {'\t', "tabs"}, {'|', "vertical bars"}, {',', "commas"}};
  for (const auto& [letter, name] : kSeparators) {
    if (letter != delimiter && count(letter) > count(delimiter)) return name;
  }
  return {};
}

bool is_value_like(std::string_view name) {
  return as_number(name).has_value() || std::ranges::count(name, ' ') >= 3;
}

std::string missing_header_advice(std::string_view value, int64_t num_columns) {
  return fmt::format(
      "the first row looks like data ('{}'), but it must name the {}: write their names, such as label and "
      "text, as the first line",
      excerpt(value), counted(num_columns, "column"));
}

std::string separator_advice(std::string_view header, char delimiter) {
  const std::string found = other_separator(header, delimiter);
  if (found.empty()) return {};
  const std::string what =
      fmt::format("the fields of the header '{}' are separated by {}", excerpt(header), found);
  if (found == "tabs") return what + ": rename the file to .tsv";
  if (delimiter == '\t') {
    return what + (found == "commas" ? ": rename the file to .csv"
                                     : ", but those of a .tsv file by tabs: write it with tabs");
  }
  return what + ", but those of a .csv file by commas: write it with commas, or with tabs as .tsv";
}

}  // namespace plimsoll
