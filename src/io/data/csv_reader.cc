#include "io/data/csv_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "base/hash.h"

namespace plimsoll {
namespace {

int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; });
}

// Parses the text in one pass. Cells are moved to the front of the same memory as they are read. A cell is
// never longer than its source, so the write position never passes the read position.
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
  [[noreturn]] void fail_ragged(int64_t num_fields, size_t row_begin, int64_t line) const;
  [[noreturn]] void fail_open_quote(TextPlace opened, size_t cell_begin) const;

  bool at_line_end() const { return text_[read_] == '\n' || text_[read_] == '\r'; }

  const std::string& name_;
  std::string& text_;
  const CsvOptions& options_;
  std::array<bool, 256> stops_{};
  size_t read_ = 0;
  size_t write_ = 0;
  TextPlace place_;
  int64_t header_tabs_ = 0;
};

void CsvParser::consume_line_end() {
  if (text_[read_] == '\r' && read_ + 1 < text_.size() && text_[read_ + 1] == '\n') {
    ++read_;
  }
  ++read_;
  ++place_.line;
  place_.column = 1;
}

// Returns false at the end of the text.
bool CsvParser::skip_empty_lines() {
  while (read_ < text_.size() && at_line_end()) {
    consume_line_end();
  }
  return read_ < text_.size();
}

// Returns the kind of the end of a field. Requires: the read position is at a delimiter, a line end or the
// end of the text.
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
        if (read_ < text_.size() && !stops_[static_cast<unsigned char>(text_[read_])]) {
          throw_at_place(name_, place_,
                         "text after the closing quote of the field that begins on line {}, column {}: "
                         "'{}'\n  write a quote inside a quoted field twice (\"\")",
                         opened.line, opened.column, excerpt(std::string_view(text_).substr(read_), 20));
        }
        return end_field();
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

CsvParser::FieldEnd CsvParser::read_field() {
  const bool quoted = options_.quotes == QuoteRule::kRfc4180 && read_ < text_.size() && text_[read_] == '"';
  const FieldEnd end = quoted ? read_quoted() : read_plain();
  ends.push_back(static_cast<int64_t>(write_));
  return end;
}

void CsvParser::fail_open_quote(TextPlace opened, size_t cell_begin) const {
  std::string hint = "write a quote inside a quoted field twice (\"\")";
  if (options_.delimiter == ',' && header_tabs_ > 0) {
    hint = fmt::format(
        "check that the file is CSV (it has {} {} in its header: rename it to .tsv if it is tab-separated)",
        header_tabs_, header_tabs_ == 1 ? "tab" : "tabs");
  }
  throw_at_line(name_, opened.line, "quote opened at column {} is never closed\n  the field begins: {}\n  {}",
                opened.column, excerpt(std::string_view(text_).substr(cell_begin, write_ - cell_begin)),
                hint);
}

// Returns the fields of the row with the delimiters between them, which were dropped when the fields were
// moved together.
std::string CsvParser::format_row(int64_t num_fields, size_t row_begin) const {
  std::string text;
  size_t begin = row_begin;
  const size_t first = ends.size() - static_cast<size_t>(num_fields);
  for (size_t i = first; i < ends.size(); ++i) {
    const auto end = static_cast<size_t>(ends[i]);
    if (i > first) text += options_.delimiter;
    text.append(text_, begin, end - begin);
    begin = end;
  }
  return text;
}

void CsvParser::fail_ragged(int64_t num_fields, size_t row_begin, int64_t line) const {
  std::string expected;
  for (const std::string& column : columns) {
    expected += fmt::format("{}'{}'", expected.empty() ? "" : ", ", column);
  }
  const bool too_many = num_fields > static_cast<int64_t>(columns.size());
  throw_at_line(name_, line, "this row has {} {}, but the header has {}: {}\n  the row's text: {}\n  {}",
                num_fields, num_fields == 1 ? "field" : "fields", columns.size(), expected,
                excerpt(format_row(num_fields, row_begin)),
                too_many
                    ? (options_.delimiter == '\t' ? "put a field that contains a tab in double quotes"
                                                  : "put a field that contains a comma in double quotes")
                    : "put a field that contains a line end in double quotes, or add the missing fields");
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
    throw_error(ErrorCode::kBadData, "{}: the file has only empty lines", name_);
  }
  const int64_t line = place_.line;
  while (read_field() == FieldEnd::kDelimiter) {
  }
  int64_t begin = 0;
  for (const int64_t end : ends) {
    columns.emplace_back(text_, static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    begin = end;
    header_tabs_ += std::count(columns.back().begin(), columns.back().end(), '\t');
    if (columns.back().empty()) {
      // pandas writes its index without a name, and reads a column without a name under this name.
      columns.back() = fmt::format("Unnamed: {}", columns.size() - 1);
    }
  }
  ends.clear();
  write_ = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (std::find(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(i), columns[i]) !=
        columns.begin() + static_cast<std::ptrdiff_t>(i)) {
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
  return table;
}

}  // namespace plimsoll
