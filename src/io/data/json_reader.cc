#include "io/data/table_reader.h"

#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "io/data/json_scanner.h"

namespace plimsoll {
namespace {

// A parser callback that accepts everything and stores the position of the first syntax error. It is used after simdjson has refused a
// text, because simdjson does not report the position.
class ErrorFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool key(string_t&) override { return true; }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  // The parser has already passed the unexpected token. The error is reported where the token begins: one byte before, or
  // at the opening quote if it is a string.
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    const bool is_string = token.size() >= 2 && token.front() == '"' && token.back() == '"';
    offset = position - std::min(position, is_string ? token.size() : 1);
    return false;
  }
  std::optional<size_t> offset;

 private:
  bool enter() { return ++depth_ <= kMaxRowDepth; }
  bool leave() {
    --depth_;
    return true;
  }
  int64_t depth_ = 0;
};

// Parses rows one after the other into a table.
class RowParser {
 public:
  explicit RowParser(const TextFile& file) : file_(file) {}
  RowParser(const TextFile& file, std::vector<std::string> columns) : file_(file) {
    if (!columns.empty()) set_columns(std::move(columns));
  }

  // Adds the row whose text is in file.bytes at the offsets [begin, end). `line` is the line on which the row begins, for messages.
  void add_row(size_t begin, size_t end, int64_t line);
  Table finish();

 private:
  void find_columns(simdjson::dom::object object, int64_t line);
  void set_columns(std::vector<std::string> columns);
  void add_cells(simdjson::dom::object object, int64_t line);
  void add_value(simdjson::dom::element value);
  size_t find_column(std::string_view key, size_t guess) const;
  bool parse(size_t size);
  bool parse_repaired(std::string_view row);
  void refuse_other_format(std::string_view row, int64_t offset) const;
  [[noreturn]] void fail_syntax(simdjson::error_code error, size_t begin, size_t end) const;

  const TextFile& file_;
  simdjson::dom::parser parser_;
  int64_t capacity_ = 0;
  std::string padded_;
  std::optional<Table> table_;
  // A value of the row that is being read; there is one per column.
  struct Value {
    std::optional<simdjson::dom::element> element;
    bool is_repeated = false;
    const std::string* original = nullptr;  // the source text, if a value that is not valid JSON was replaced
  };
  std::vector<Value> row_;
  RepairedJson repaired_;
  // Per field of the row: the source text of a value that was replaced because it is not valid JSON, or null if the value of the field was
  // not replaced. The list is empty if no value of the row was replaced.
  std::vector<const std::string*> originals_;
  simdjson::dom::element root_;
  simdjson::error_code error_ = simdjson::SUCCESS;
};

// Throws an error that names the format of the file if the row shows that it is not JSON Lines: a list of rows, objects over several
// lines, dictionaries as Python prints them, or CSV.
void RowParser::refuse_other_format(std::string_view row, int64_t offset) const {
  const auto fail = [&](std::string_view problem) {
    throw_at_place(file_.name, place_in(file_, offset), "{}\n  the row begins: {}", problem, excerpt(row));
  };
  if (row.starts_with("{'") || row.starts_with("[{'")) {
    fail("the rows are dictionaries as Python prints them, not JSON; write each row with json.dumps()");
  }
  // The rules below are about the first row of JSON Lines, which is also the first text of the file.
  if (table_ || offset != static_cast<int64_t>(file_.bytes.find_first_not_of(" \t\r\n"))) return;
  if (row.starts_with('[') && row.find('{') != std::string_view::npos) {
    fail("the file is one list of rows, but JSON Lines have one object per line; rename the file to .json");
  }
  const bool is_complete = row.find('}') != std::string_view::npos;
  const bool is_continued = std::string_view("{[,").find(row.back()) != std::string_view::npos;
  if (row == "[" || (row.starts_with('{') && is_continued && !is_complete)) {
    fail(
        "a row extends over several lines, but JSON Lines have one object per line; write them with pandas' "
        "DataFrame.to_json(path, orient='records', lines=True), or a list of rows as .json");
  }
  const char first = row.empty() ? '\0' : row[0];
  const bool is_json =
      first == '{' || first == '[' || first == '"' || first == '-' || (first >= '0' && first <= '9');
  const bool has_tab = row.find('\t') != std::string_view::npos;
  if (!is_json && (has_tab || row.find(',') != std::string_view::npos)) {
    fail(
        fmt::format("the file does not contain JSON; if its rows are fields separated by {}, rename it to {}",
                    has_tab ? "tabs" : "commas", has_tab ? ".tsv" : ".csv"));
  }
}

// Returns the beginning of `rest` if it is a value as Python writes it and JSON does not, such as None or 'text'; otherwise an empty
// string.
std::string_view python_value_in(std::string_view rest) {
  const size_t begin = rest.find_first_not_of(" \t\r\n,:[{");
  if (begin == std::string_view::npos) return {};
  rest.remove_prefix(begin);
  for (const std::string_view word : {"True", "False", "None", "'", "u'", "b'", "u\"", "b\"", "(", "array(",
                                      "tensor(", "OrderedDict(", "datetime"}) {
    if (rest.starts_with(word)) return rest.substr(0, std::min<size_t>(rest.find_first_of(",:]})\n"), 20));
  }
  return {};
}

constexpr std::string_view kPythonAdvice =
    "write the data with Python's json.dump(), or with to_json(path, orient='records', lines=True) of pandas";

void RowParser::fail_syntax(simdjson::error_code error, size_t begin, size_t end) const {
  const std::string_view row = std::string_view(file_.bytes).substr(begin, end - begin);
  if (error == simdjson::DEPTH_ERROR) {
    throw_at_place(file_.name, place_in(file_, static_cast<int64_t>(begin)),
                   "this row is nested more than {} levels deep: {}", kMaxRowDepth, excerpt(row));
  }
  refuse_other_format(row, static_cast<int64_t>(begin));
  ErrorFinder finder;
  nlohmann::json::sax_parse(row.begin(), row.end(), &finder);
  const size_t at = begin + std::min(finder.offset.value_or(0), row.size());
  const TextPlace place = place_in(file_, static_cast<int64_t>(at));
  const std::string_view rest = std::string_view(file_.bytes).substr(at, end - at);
  for (const std::string_view word : {"NaN", "nan", "Infinity", "inf"}) {
    if (rest.starts_with(word) || rest.starts_with("-" + std::string(word)) ||
        (rest.size() > 1 && rest.substr(1).starts_with(word))) {
      throw_at_place(file_.name, place, "{} is not JSON: write a finite number, or null for a missing one",
                     word);
    }
  }
  if (const std::string_view python = python_value_in(rest); !python.empty()) {
    throw_at_place(file_.name, place, "{} is a value as Python writes it, not JSON; {}\n  the row begins: {}",
                   python, kPythonAdvice, excerpt(row));
  }
  if (rest.find_first_not_of(" \t\r,") == std::string_view::npos && rest.starts_with(',')) {
    throw_at_place(
        file_.name, place,
        "a comma follows the row, but rows of JSON Lines have only line ends between them; remove it, or "
        "write all rows as a list, [...], into a .json file");
  }
  throw_at_place(file_.name, place, "not valid JSON: {}\n  at: {}\n  the row begins: {}",
                 simdjson::error_message(error), rest.empty() ? "the row's end" : excerpt(rest, 20),
                 excerpt(row));
}

size_t RowParser::find_column(std::string_view key, size_t guess) const {
  const std::vector<std::string>& columns = table_->columns();
  if (guess < columns.size() && columns[guess] == key) {
    return guess;
  }
  const int64_t found = table_->find_column(key);
  return found < 0 ? columns.size() : static_cast<size_t>(found);
}

void RowParser::set_columns(std::vector<std::string> columns) {
  table_.emplace(file_.name, file_.content_hash, std::move(columns));
  table_->set_typed();
  row_.resize(table_->columns().size());
}

void RowParser::find_columns(simdjson::dom::object object, int64_t line) {
  std::vector<std::string> columns;
  for (const simdjson::dom::key_value_pair field : object) {
    if (std::find(columns.begin(), columns.end(), field.key) == columns.end()) {
      columns.emplace_back(field.key);
    }
  }
  if (columns.empty()) {
    throw_at_line(file_.name, line, "the first row is an empty object: it must name the columns");
  }
  set_columns(std::move(columns));
}

void RowParser::add_value(simdjson::dom::element value) {
  switch (value.type()) {
    case simdjson::dom::element_type::STRING:
      table_->add_cell(std::string_view(value), CellKind::kText);
      return;
    case simdjson::dom::element_type::INT64:
      table_->add_cell(fmt::format("{}", int64_t(value)), CellKind::kInteger);
      return;
    case simdjson::dom::element_type::UINT64:
      table_->add_cell(fmt::format("{}", uint64_t(value)), CellKind::kInteger);
      return;
    case simdjson::dom::element_type::DOUBLE:
      table_->add_cell(fmt::format("{}", double(value)), CellKind::kFloat);
      return;
    case simdjson::dom::element_type::BOOL:
      table_->add_cell(bool(value) ? "true" : "false", CellKind::kBool);
      return;
    case simdjson::dom::element_type::ARRAY:
      table_->add_cell(simdjson::minify(value), CellKind::kList);
      return;
    case simdjson::dom::element_type::OBJECT:
      table_->add_cell(simdjson::minify(value), CellKind::kObject);
      return;
    default:
      table_->add_cell("", CellKind::kNull);
  }
}

// Returns true for null, [], {} and "".
bool is_empty(simdjson::dom::element value) {
  return value.is_null() || (value.is_array() && value.get_array().size() == 0) ||
         (value.is_object() && value.get_object().size() == 0) ||
         (value.is_string() && std::string_view(value).empty());
}

void RowParser::add_cells(simdjson::dom::object object, int64_t line) {
  std::fill(row_.begin(), row_.end(), Value());
  size_t guess = 0;
  size_t field_index = 0;
  for (const simdjson::dom::key_value_pair field : object) {
    const std::string* original = originals_.empty() ? nullptr : originals_[field_index];
    ++field_index;
    const size_t column = find_column(field.key, guess);
    guess = column + 1;
    if (column == row_.size()) {
      if (!is_empty(field.value)) table_->add_late_column(field.key, line);
      continue;
    }
    row_[column].is_repeated = row_[column].element.has_value();
    row_[column].element = field.value;
    row_[column].original = original;
  }
  table_->begin_row(line);
  for (const Value& value : row_) {
    if (value.is_repeated) {
      table_->add_cell("", CellKind::kRepeated);
    } else if (value.original != nullptr) {
      table_->add_cell(*value.original, CellKind::kInvalid);
    } else if (value.element.has_value()) {
      add_value(*value.element);
    } else {
      table_->add_cell("", CellKind::kNull);
    }
  }
}

// Parses the row in the first `size` bytes of padded_ and stores the result in root_. Returns false if it is not JSON; error_ then has
// the reason.
bool RowParser::parse(size_t size) {
  if (capacity_ < static_cast<int64_t>(size)) {
    capacity_ = static_cast<int64_t>(size + size / 2 + 1024);
    error_ = parser_.allocate(static_cast<size_t>(capacity_), kMaxRowDepth);
    if (error_ != simdjson::SUCCESS) return false;
  }
  const simdjson::simdjson_result<simdjson::dom::element> parsed = parser_.parse(padded_.data(), size, false);
  error_ = parsed.error();
  if (error_ == simdjson::SUCCESS) root_ = parsed.value_unsafe();
  return error_ == simdjson::SUCCESS;
}

// Parses a row in which values that the parser does not accept, such as NaN, are replaced, and remembers which fields had such values.
// Returns false if the row is not a JSON object for another reason; error_ keeps the reason of the first attempt to parse it.
bool RowParser::parse_repaired(std::string_view row) {
  const simdjson::error_code first_error = error_;
  repaired_ = repair_json(row);
  if (repaired_.replaced.empty()) return false;
  padded_ = repaired_.text;
  padded_.append(simdjson::SIMDJSON_PADDING, ' ');
  if (!parse(repaired_.text.size()) || !root_.is_object()) {
    error_ = first_error;
    return false;
  }
  const TextFile text{.name = file_.name, .bytes = repaired_.text};
  JsonScanner scanner(text);
  size_t next = 0;
  scanner.skip_space();
  scanner.take('{', "'{'");
  scanner.skip_space();
  while (!scanner.at('}')) {
    scanner.take_key();
    scanner.skip_space();
    scanner.take(':', "':'");
    scanner.skip_space();
    // Skips the replacements (of NaN and the like) in the key of this member, because only those in its value matter.
    const size_t begin = scanner.offset();
    while (next < repaired_.replaced.size() && repaired_.replaced[next].offset < begin) ++next;
    scanner.skip_value();
    const bool has_one =
        next < repaired_.replaced.size() && repaired_.replaced[next].offset < scanner.offset();
    originals_.push_back(has_one ? &repaired_.replaced[next].original : nullptr);
    scanner.skip_space();
    if (scanner.at(',')) scanner.take(',', "','");
    scanner.skip_space();
  }
  return true;
}

void RowParser::add_row(size_t begin, size_t end, int64_t line) {
  const size_t size = end - begin;
  padded_.assign(file_.bytes, begin, size);
  padded_.append(simdjson::SIMDJSON_PADDING, ' ');
  originals_.clear();
  if (!parse(size)) {
    if (error_ == simdjson::CAPACITY || error_ == simdjson::MEMALLOC) {
      throw_at_line(file_.name, line, "a row of {} bytes is too large: {}", size,
                    simdjson::error_message(error_));
    }
    if (error_ == simdjson::DEPTH_ERROR ||
        !parse_repaired(std::string_view(file_.bytes).substr(begin, size))) {
      fail_syntax(error_, begin, end);
    }
  }
  const simdjson::dom::element row = root_;
  if (!row.is_object()) {
    refuse_other_format(std::string_view(file_.bytes).substr(begin, size), static_cast<int64_t>(begin));
    throw_at_place(file_.name, place_in(file_, static_cast<int64_t>(begin)),
                   "every row must be an object, {{\"column\": value, ...}}, but this is: {}{}",
                   excerpt(std::string_view(file_.bytes).substr(begin, size)),
                   row.is_array() ? "\n  write objects with pandas' DataFrame.to_json(orient='records', "
                                    "lines=True)"
                                  : "");
  }
  const simdjson::dom::object object = row;
  if (!table_.has_value()) {
    find_columns(object, line);
  }
  add_cells(object, line);
}

Table RowParser::finish() {
  if (!table_.has_value()) {
    throw_error(ErrorCode::kBadData, "{}: the file has no rows; check that it is complete", file_.name);
  }
  table_->shrink_to_fit();
  return std::move(*table_);
}

// Reads the rows of a JSON array. Requires: the scanner is at '['.
void read_rows(JsonScanner& scanner, RowParser& rows) {
  scanner.take('[', "'['");
  scanner.skip_space();
  bool more = !scanner.at(']');
  while (more) {
    const int64_t line = scanner.line();
    const size_t begin = scanner.skip_value();
    rows.add_row(begin, scanner.offset(), line);
    scanner.skip_space();
    more = !scanner.at(']');
    if (more) {
      scanner.take(',', "',' or ']' after a row");
      scanner.skip_space();
    }
  }
  scanner.take(']', "']'");
}

}  // namespace

Table read_json(const TextFile& file) {
  const std::string_view text =
      std::string_view(file.bytes)
          .substr(std::min(file.bytes.find_first_not_of(" \t\r\n"), file.bytes.size()));
  if ((text.starts_with('{') && !python_value_in(text).empty()) || text.starts_with('(') ||
      text.starts_with("[(")) {
    throw_error(ErrorCode::kBadData, "{}: the file contains a value as Python writes it, not JSON: {}\n  {}",
                file.name, excerpt(text), kPythonAdvice);
  }
  JsonScanner scanner(file);
  RowParser rows(file);
  scanner.skip_space();
  if (scanner.at('[')) {
    read_rows(scanner, rows);
  } else {
    scanner.take('{', "an array of objects, {\"data\": [...]} or one object per line");
    bool found = false;
    std::vector<std::string> keys;
    int64_t num_objects = 0;
    int64_t num_lists = 0;
    std::vector<std::string_view> lists_of_rows;  // the keys whose values are lists of objects
    scanner.skip_space();
    bool more = !scanner.at('}');
    while (more) {
      const std::string_view key = scanner.take_key();
      keys.emplace_back(key);
      scanner.skip_space();
      scanner.take(':', "':' after a key");
      scanner.skip_space();
      num_objects += scanner.at('{') ? 1 : 0;
      num_lists += scanner.at('[') ? 1 : 0;
      if (key == "data" && !found && scanner.at('[')) {
        read_rows(scanner, rows);
        found = true;
      } else {
        const bool is_list = scanner.at('[');
        const size_t begin = scanner.skip_value();
        const std::string_view list = std::string_view(file.bytes).substr(begin, scanner.offset() - begin);
        const size_t item = is_list ? list.find_first_not_of(" \t\r\n", 1) : std::string_view::npos;
        if (item != std::string_view::npos && list[item] == '{') lists_of_rows.push_back(key);
      }
      scanner.skip_space();
      more = !scanner.at('}');
      if (more) {
        scanner.take(',', "',' or '}' after a value");
        scanner.skip_space();
      }
    }
    scanner.take('}', "'}'");
    // Recognizes a table that was written by columns instead of rows, to report it: pandas' DataFrame.to_json writes an object per column
    // by default, and a dictionary of lists has a list per column.
    if (!found && !lists_of_rows.empty()) {
      throw_error(
          ErrorCode::kBadData,
          "{}: the file is one object with lists of rows in '{}', but one list of rows is expected; write "
          "each list into a file of its own",
          file.name,
          fmt::join(std::span(lists_of_rows).first(std::min<size_t>(lists_of_rows.size(), 10)), "', '"));
    }
    if (!found && ((!keys.empty() && num_objects == std::ssize(keys)) ||
                   (keys.size() >= 2 && num_lists == std::ssize(keys)))) {
      throw_error(
          ErrorCode::kBadData,
          "{}: the file has {} for each of '{}'{}, but one object per row is expected\n  write rows with "
          "pandas' DataFrame.to_json(path, orient='records', lines=True)",
          file.name, num_objects > 0 ? "an object" : "a list",
          fmt::join(std::span(keys).first(std::min<size_t>(keys.size(), 10)), "', '"),
          keys.size() > 10 ? fmt::format(" and {} more", keys.size() - 10) : "");
    }
    if (!found) {
      throw_error(ErrorCode::kBadData,
                  "{}: the file is an object without \"data\": expected an array of objects, {{\"data\": "
                  "[...]}} or one object per line\n  pandas writes rows with DataFrame.to_json(path, "
                  "orient='records', lines=True)",
                  file.name);
    }
  }
  scanner.skip_space();
  if (!scanner.at_end()) {
    scanner.fail("expected the end of the file");
  }
  return rows.finish();
}

Table read_jsonl(const TextFile& file, std::vector<std::string> columns) {
  RowParser rows(file, std::move(columns));
  const std::string_view text = file.bytes;
  size_t begin = 0;
  for (int64_t line = file.first_line; begin < text.size(); ++line) {
    const size_t newline = std::min(text.find('\n', begin), text.size());
    size_t first = begin;
    size_t last = newline;
    while (first < last && is_json_space(text[first])) {
      ++first;
    }
    while (last > first && is_json_space(text[last - 1])) {
      --last;
    }
    if (first < last) {
      rows.add_row(first, last, line);
    }
    begin = newline + 1;
  }
  return rows.finish();
}

bool looks_like_jsonl(const TextFile& file) {
  const std::string_view text = file.bytes;
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || text[begin] != '{') {
    return false;
  }
  const size_t newline = std::min(text.find('\n', begin), text.size());
  const std::string_view first_line = text.substr(begin, newline - begin);
  simdjson::dom::parser parser;
  if (parser.allocate(first_line.size() + 1024, kMaxRowDepth) != simdjson::SUCCESS) {
    return true;
  }
  const simdjson::padded_string padded(repair_json(first_line).text);
  const simdjson::simdjson_result<simdjson::dom::element> parsed = parser.parse(padded);
  const bool rest_is_empty = text.find_first_not_of(" \t\r\n", newline) == std::string_view::npos;
  if (parsed.error() != simdjson::SUCCESS) {
    // If the first line contains a closing brace and other lines follow, the first line is a malformed row of JSONL. The first line of a
    // JSON document in several lines opens an object and does not close it.
    return first_line.find('}') != std::string_view::npos && !rest_is_empty;
  }
  const simdjson::dom::element document = parsed.value_unsafe();
  return !(rest_is_empty && document["data"].is_array());
}

std::optional<std::vector<JsonItem>> find_json_list(std::string_view text) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(text);
  const simdjson::simdjson_result<simdjson::dom::element> parsed = parser.parse(padded);
  if (parsed.error() != simdjson::SUCCESS || !parsed.value_unsafe().is_array()) return std::nullopt;
  std::vector<JsonItem> items;
  const simdjson::dom::array list = parsed.value_unsafe();
  for (const simdjson::dom::element item : list) {
    JsonItem made;
    switch (item.type()) {
      case simdjson::dom::element_type::STRING:
        made = {CellKind::kText, std::string(std::string_view(item))};
        break;
      case simdjson::dom::element_type::INT64:
        made = {CellKind::kInteger, fmt::format("{}", int64_t(item))};
        break;
      case simdjson::dom::element_type::UINT64:
        made = {CellKind::kInteger, fmt::format("{}", uint64_t(item))};
        break;
      case simdjson::dom::element_type::DOUBLE:
        made = {CellKind::kFloat, fmt::format("{}", double(item))};
        break;
      case simdjson::dom::element_type::BOOL:
        made = {CellKind::kBool, bool(item) ? "true" : "false"};
        break;
      case simdjson::dom::element_type::ARRAY:
        made = {CellKind::kList, ""};
        break;
      case simdjson::dom::element_type::OBJECT:
        made = {CellKind::kObject, ""};
        break;
      default:
        break;
    }
    items.push_back(std::move(made));
  }
  return items;
}

}  // namespace plimsoll
