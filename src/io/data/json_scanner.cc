#include "io/data/json_scanner.h"

namespace plimsoll {

void JsonScanner::skip_string() {
  const size_t begin = at_++;
  while (at_ < text_.size() && text_[at_] != '"') {
    count_line();
    at_ += text_[at_] == '\\' ? 2 : 1;
  }
  if (at_ >= text_.size()) {
    throw_at_place(
        file_.name, place_of(text_, static_cast<int64_t>(begin)),
        "this string is never closed: {}\n  add the closing quote, or check that the file is complete",
        excerpt(text_.substr(begin)));
  }
  ++at_;
}

std::string_view JsonScanner::take_key() {
  if (!at('"')) {
    fail("expected a key in double quotes");
  }
  const size_t begin = at_;
  skip_string();
  return text_.substr(begin + 1, at_ - begin - 2);
}

size_t JsonScanner::skip_value() {
  const size_t begin = at_;
  int64_t depth = 0;
  while (at_ < text_.size()) {
    const char byte = text_[at_];
    if (byte == '"') {
      skip_string();
    } else if (byte == '{' || byte == '[') {
      ++depth;
      ++at_;
    } else if (byte == '}' || byte == ']') {
      if (depth == 0) {
        break;
      }
      --depth;
      ++at_;
    } else if (depth == 0 && (byte == ',' || is_json_space(byte))) {
      break;
    } else {
      count_line();
      ++at_;
      continue;
    }
    if (depth == 0) {
      break;
    }
  }
  if (depth > 0) {
    throw_at_place(file_.name, place_of(text_, static_cast<int64_t>(begin)),
                   "the value that begins here is never closed: {}\n  the file may be incomplete",
                   excerpt(text_.substr(begin)));
  }
  if (at_ == begin) {
    fail("expected a value");
  }
  return begin;
}

}  // namespace plimsoll
