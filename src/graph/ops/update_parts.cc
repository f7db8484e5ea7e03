#include "graph/ops/update_parts.h"

#include <charconv>

namespace plimsoll {

std::string format_part_rows(std::span<const std::vector<int64_t>> rows) {
  std::string text;
  for (const std::vector<int64_t>& parameter : rows) {
    if (!text.empty()) text += ",";
    for (size_t i = 0; i < parameter.size(); ++i) text += (i > 0 ? "+" : "") + std::to_string(parameter[i]);
  }
  return text;
}

std::vector<std::vector<int64_t>> part_rows_of(const Attributes& attributes) {
  const std::string& text = attributes.word(kPartRows);
  std::vector<std::vector<int64_t>> rows(1);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    PLIMSOLL_CHECK(error == std::errc() && (rest == end || *rest == '+' || *rest == ','),
                   "'{}' does not list rows of parts", text);
    rows.back().push_back(number);
    if (rest < end && *rest == ',') rows.emplace_back();
    at = rest + 1;
  }
  return rows;
}

int64_t elements_per_row(const Shape& shape) {
  int64_t elements = 1;
  for (int i = 1; i < shape.rank(); ++i) elements *= shape[i].offset;
  return elements;
}

}  // namespace plimsoll
