#include "io/ckpt/json_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {

std::string quoted_name(std::string_view name) {
  return "'" + printable(name) + "'";
}

std::string text_position(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n');
  const size_t column = start == std::string_view::npos ? before.size() : before.size() - start - 1;
  return fmt::format("line {}, column {}", line, column + 1);
}

}  // namespace plimsoll
