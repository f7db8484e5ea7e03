#include "base/printable.h"

#include <fmt/format.h>

namespace plimsoll {
namespace {

// Returns the length of the valid UTF-8 sequence at the start of the text, or 0 if it is invalid.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0u) != 0x80u) return 0;
  }
  return length;
}

}  // namespace

std::string printable(std::string_view text, size_t most_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() > most_bytes) {
      out += "...";
      break;
    }
    const size_t length = utf8_length(text);
    const auto byte = static_cast<unsigned char>(text.front());
    // U+0080 to U+009F are control characters, too, and are therefore escaped
    const bool is_second_set = length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0 || byte < 0x20 || byte == 0x7f || is_second_set) {
      out += fmt::format("\\x{:02x}", byte);
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string quoted_name(std::string_view name) {
  return "'" + printable(name) + "'";
}

}  // namespace plimsoll
