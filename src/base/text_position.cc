#include "base/text_position.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "base/utf8.h"

namespace plimsoll {

TextPosition position_in(std::string_view text, size_t offset) {
  TextPosition position;
  for (const char byte : text.substr(0, std::min(offset, text.size()))) {
    if (byte == '\n') {
      ++position.line;
      position.column = 1;
    } else if (!is_utf8_continuation(byte)) {
      ++position.column;
    }
  }
  return position;
}

std::string line_until(std::string_view text, size_t offset) {
  constexpr size_t kShown = 40;
  text = text.substr(0, offset + 1);
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  // If the position is in the first line, find_last_of() returns npos, and npos + 1 is 0, so nothing is removed.
  text.remove_prefix(text.find_last_of('\n') + 1);
  const size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  size_t begin = std::max(first, text.size() - std::min(kShown, text.size()));
  while (begin < text.size() && is_utf8_continuation(text[begin])) ++begin;
  return fmt::format("'{}{}'", begin > first ? "..." : "", printable(text.substr(begin)));
}

}  // namespace plimsoll
