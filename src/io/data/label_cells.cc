#include "io/data/label_cells.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "io/data/text_file.h"
#include "io/data/written_list.h"

namespace plimsoll {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

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

void fail_dictionary(const TextSplit& split, int64_t row) {
  fail_at_row(split, row,
              fmt::format("the label is an object: {}\n  write a list of the classes that the row has, "
                          "[\"a\", \"b\"], or of one 0 or 1 per class",
                          excerpt(split.label(row))));
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
  if (kind != CellKind::kText) return kind == CellKind::kList;
  return !opening_of_list(split.label(row)).empty() || find_written_list(split.label(row)).has_value();
}

std::vector<JsonItem> label_items(const TextSplit& split, int64_t row, std::string_view delimiter) {
  const CellKind kind = split.label_kind(row);
  if (is_label_list(split, row)) {
    std::optional<std::vector<JsonItem>> items = find_written_list(split.label(row));
    if (!items.has_value()) {
      fail_at_row(split, row,
                  fmt::format("the label begins with '{0}' but is not a list: {1}\n  write [0, 1, 0] or "
                              "[\"a\", \"b\"], in quotes if the file's fields are separated by commas; or "
                              "names separated by '{2}', the first without '{0}'",
                              opening_of_list(split.label(row)), excerpt(split.label(row)), delimiter));
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
  if (kind == CellKind::kObject || is_written_dictionary(split.label(row))) fail_dictionary(split, row);
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

std::optional<int64_t> as_whole_number(std::string_view text) {
  if (const std::optional<int64_t> integer = as_integer(text)) return integer;
  const std::optional<double> number = as_number(text);
  constexpr double kLargestExact = 9007199254740992.0;  // 2^53, up to which fp64 represents every integer
  if (!number || !(std::abs(*number) <= kLargestExact) || std::trunc(*number) != *number) return std::nullopt;
  return static_cast<int64_t>(*number);
}

std::string class_name(std::string_view text, bool integers) {
  return integers ? fmt::format("{}", *as_integer(text)) : std::string(text);
}

}  // namespace plimsoll
