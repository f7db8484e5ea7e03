#include "io/data/label_cells.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Reads a list in the notation that Python or NumPy prints, such as ['a', 'b'] or [0 1].
class WrittenList {
 public:
  explicit WrittenList(std::string_view text) : rest_(text) {}

  std::optional<std::vector<JsonItem>> read() && {
    if (!rest_.starts_with('[') || !rest_.ends_with(']')) return std::nullopt;
    rest_ = rest_.substr(1, rest_.size() - 2);
    std::vector<JsonItem> items;
    skip_blanks();
    while (!rest_.empty()) {
      std::optional<JsonItem> item = rest_[0] == '\'' || rest_[0] == '"' ? read_string() : read_word();
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
      const size_t before = rest_.size();
      skip_blanks();
      if (rest_.empty()) break;
      if (rest_[0] == ',') {
        rest_.remove_prefix(1);
        skip_blanks();
        if (rest_.empty()) return std::nullopt;
      } else if (rest_.size() == before) {
        return std::nullopt;  // the text is not a list: no comma or blank follows this item
      }
    }
    return items;
  }

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  std::optional<JsonItem> read_string() {
    const char quote = rest_[0];
    std::string text;
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        rest_.remove_prefix(i + 1);
        return JsonItem{CellKind::kText, std::move(text)};
      }
      if (rest_[i] == '\\' && ++i == rest_.size()) break;
      text += rest_[i];
    }
    return std::nullopt;
  }

  std::optional<JsonItem> read_word() {
    const std::string_view word = rest_.substr(0, std::min(rest_.find_first_of(", \t\r\n"), rest_.size()));
    rest_.remove_prefix(word.size());
    if (word == "True" || word == "False") {
      return JsonItem{CellKind::kBool, word == "True" ? "true" : "false"};
    }
    if (as_integer(word)) return JsonItem{CellKind::kInteger, fmt::format("{}", *as_integer(word))};
    const std::optional<double> number = as_number(word);
    if (!number || !std::isfinite(*number)) return std::nullopt;
    return JsonItem{CellKind::kFloat, fmt::format("{}", *number)};
  }

  std::string_view rest_;
};

}  // namespace

std::optional<std::vector<JsonItem>> find_written_list(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with('[')) return std::nullopt;
  std::optional<std::vector<JsonItem>> items = find_json_list(text);
  return items ? std::move(items) : WrittenList(text).read();
}

std::optional<int64_t> as_integer(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                   : std::nullopt;
}

std::optional<double> as_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                   : std::nullopt;
}

void fail_at_row(const TextSplit& split, int64_t row, const std::string& message) {
  throw_at_line(split.table().file_name(), split.line(row), "{}", message);
}

bool is_label_missing(const TextSplit& split, int64_t row) {
  return split.label_kind(row) == CellKind::kNull ||
         (split.label_kind(row) == CellKind::kText && trimmed(split.label(row)).empty());
}

double finite_number(const TextSplit& split, int64_t row, std::string_view text) {
  const std::optional<double> value = as_number(text);
  if (!value.has_value()) {
    fail_at_row(split, row,
                fmt::format("the label '{}' is not a number, which regression needs", excerpt(text)));
  }
  if (!std::isfinite(*value) || std::abs(*value) > static_cast<double>(std::numeric_limits<float>::max())) {
    fail_at_row(split, row,
                fmt::format("the label {} is not a finite number in fp32; correct it, or remove the row",
                            excerpt(text)));
  }
  return *value;
}

bool is_label_list(const TextSplit& split, int64_t row) {
  const CellKind kind = split.label_kind(row);
  return kind == CellKind::kList || (kind == CellKind::kText && trimmed(split.label(row)).starts_with('['));
}

std::vector<JsonItem> label_items(const TextSplit& split, int64_t row, std::string_view delimiter) {
  const CellKind kind = split.label_kind(row);
  if (is_label_list(split, row)) {
    std::optional<std::vector<JsonItem>> items = find_written_list(split.label(row));
    if (!items.has_value()) {
      fail_at_row(split, row,
                  fmt::format("the label begins with '[' but is not a list: {}\n  write [0, 1, 0] or "
                              "[\"a\", \"b\"], in quotes if the file's fields are separated by commas; or "
                              "names separated by '{}', the first without '['",
                              excerpt(split.label(row)), delimiter));
    }
    for (JsonItem& item : *items) {
      if (item.kind == CellKind::kNull || item.kind == CellKind::kList || item.kind == CellKind::kObject) {
        fail_at_row(split, row,
                    fmt::format("a list of labels contains {}: {}", cell_kind_name(item.kind),
                                excerpt(split.label(row))));
      }
      if (item.kind == CellKind::kBool) item.text.assign(1, item.text == "true" ? '1' : '0');
    }
    return std::move(*items);
  }
  if (kind == CellKind::kObject) {
    fail_at_row(split, row, fmt::format("the label is an object: {}", excerpt(split.label(row))));
  }
  std::vector<JsonItem> items;
  std::string_view rest = split.label(row);
  while (!trimmed(rest).empty()) {
    const size_t end = std::min(rest.find(delimiter), rest.size());
    const std::string_view item = trimmed(rest.substr(0, end));
    if (item.empty()) {
      fail_at_row(split, row,
                  fmt::format("an empty label between two '{}': {}", delimiter, excerpt(split.label(row))));
    }
    items.push_back({CellKind::kText, std::string(item)});
    rest.remove_prefix(std::min(end + delimiter.size(), rest.size()));
  }
  return items;
}

std::string class_name(std::string_view text, bool integers) {
  return integers ? fmt::format("{}", *as_integer(text)) : std::string(text);
}

}  // namespace plimsoll
