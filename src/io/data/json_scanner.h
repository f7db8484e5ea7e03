// Finds the boundaries of values in a JSON text without validating them. It is used by json_reader.cc only. Not thread-safe. It refers to
// the text of the file, which must outlive it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/data/text_file.h"

namespace plimsoll {

inline bool is_json_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

// Finds where rows begin and end by looking only at brackets and strings. RowParser in json_reader.cc then checks the content. Deep nesting
// needs no stack, because the code is not recursive.
class JsonScanner {
 public:
  explicit JsonScanner(const TextFile& file) : file_(file), text_(file.bytes) {}

  void skip_space() {
    while (at_ < text_.size() && is_json_space(text_[at_])) {
      count_line();
      ++at_;
    }
  }
  bool at_end() const { return at_ == text_.size(); }
  bool at(char byte) const { return at_ < text_.size() && text_[at_] == byte; }
  void take(char byte, const char* what) {
    if (!at(byte)) {
      fail(fmt::format("expected {}", what));
    }
    ++at_;
  }
  // Moves the position past a value and returns the offset at which the value starts.
  size_t skip_value();
  std::string_view take_key();
  size_t offset() const { return at_; }
  int64_t line() const { return line_; }
  [[noreturn]] void fail(const std::string& message) const {
    throw_at_place(file_.name, place_of(text_, static_cast<int64_t>(at_)), "{}, found {}", message,
                   at_end() ? "the end of the file" : fmt::format("'{}'", excerpt(text_.substr(at_), 20)));
  }

 private:
  void count_line() {
    const bool lone_cr = text_[at_] == '\r' && (at_ + 1 >= text_.size() || text_[at_ + 1] != '\n');
    line_ += text_[at_] == '\n' || lone_cr ? 1 : 0;
  }
  void skip_string();

  const TextFile& file_;
  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

}  // namespace plimsoll
