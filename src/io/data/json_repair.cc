#include "io/data/table_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

namespace plimsoll {
namespace {

bool is_word_byte(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         byte == '-' || byte == '+' || byte == '.';
}

bool is_not_a_number(std::string_view word) {
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  return word == "NaN" || word == "nan" || word == "Infinity" || word == "inf" || word == "Inf";
}

// Returns true for a number that is too large for int64_t and uint64_t, or for double.
bool is_too_large(std::string_view word) {
  const std::string_view digits = word.starts_with('-') ? word.substr(1) : word;
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return false;
  if (word.find_first_not_of("-0123456789") != std::string_view::npos) {
    char* end = nullptr;
    const std::string text(word);
    const double value = std::strtod(text.c_str(), &end);
    return end == text.c_str() + text.size() && std::isinf(value);
  }
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude);
  if (end != digits.data() + digits.size()) return false;
  return error == std::errc::result_out_of_range || (word.starts_with('-') && magnitude > uint64_t{1} << 63);
}

class Repair {
 public:
  explicit Repair(std::string_view text) : text_(text) {}

  RepairedJson run() && {
    while (at_ < text_.size()) {
      if (text_[at_] == '"') {
        take_string();
      } else if (is_word_byte(text_[at_])) {
        take_word();
      } else {
        result_.text += text_[at_++];
      }
    }
    return std::move(result_);
  }

 private:
  void replace(std::string_view original, std::string_view by) {
    result_.replaced.push_back({result_.text.size(), std::string(original)});
    result_.text += by;
  }

  void take_word() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_word_byte(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (is_not_a_number(word)) {
      replace(word, "null");
    } else if (is_too_large(word)) {
      replace(word, "0");
    } else {
      result_.text += word;
    }
  }

  // Returns the code of the escape \uXXXX at this offset, or nothing.
  std::optional<uint32_t> unicode_escape(size_t offset) const {
    if (text_.substr(std::min(offset, text_.size()), 2) != "\\u" || offset + 6 > text_.size()) {
      return std::nullopt;
    }
    uint32_t code = 0;
    const char* begin = text_.data() + offset + 2;
    const auto [end, error] = std::from_chars(begin, begin + 4, code, 16);
    return error == std::errc() && end == begin + 4 ? std::optional(code) : std::nullopt;
  }

  void take_string() {
    const auto is_high = [](std::optional<uint32_t> code) { return code >= 0xD800u && code < 0xDC00u; };
    const auto is_low = [](std::optional<uint32_t> code) { return code >= 0xDC00u && code < 0xE000u; };
    result_.text += text_[at_++];
    while (at_ < text_.size()) {
      if (text_[at_] == '"') {
        result_.text += text_[at_++];
        return;
      }
      size_t taken = text_[at_] == '\\' ? 2 : 1;
      const std::optional<uint32_t> code = unicode_escape(at_);
      if (is_high(code) && is_low(unicode_escape(at_ + 6))) {
        taken = 12;
      } else if (is_high(code) || is_low(code)) {
        replace(text_.substr(at_, 6), "\\ufffd");
        at_ += 6;
        continue;
      }
      result_.text += text_.substr(at_, taken);
      at_ = std::min(at_ + taken, text_.size());
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  RepairedJson result_;
};

}  // namespace

RepairedJson repair_json(std::string_view text) {
  return Repair(text).run();
}

}  // namespace plimsoll
