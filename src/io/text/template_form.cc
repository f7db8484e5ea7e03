// Computes the normal form of a chat template, which consists of the tokens that Jinja's lexer finds in it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "io/text/chat_template.h"

namespace plimsoll::text {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_word(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Writes the normal form. The tokens of a Jinja tag are written one by one, each after a byte that states its kind.
class FormWriter {
 public:
  explicit FormWriter(std::string* form) : form_(form) {}

  void data(std::string_view text) {
    if (text.empty()) return;
    if (!ends_with_data_) *form_ += "\x01";
    *form_ += text;
    ends_with_data_ = true;
  }
  void open(char kind) {
    *form_ += '\x02';
    *form_ += kind;
    ends_with_data_ = false;
    tokens_.clear();
  }
  void token(char kind, std::string text) {
    // writes x['name'] like x.name, because both mean the same
    const size_t count = tokens_.size();
    if (kind == 'o' && text == "]" && count >= 3 && tokens_[count - 1].kind == 's' &&
        tokens_[count - 2].text == "[" && tokens_[count - 2].kind == 'o' &&
        is_name(tokens_[count - 1].text) && ends_value(tokens_[count - 3])) {
      tokens_[count - 2].text = ".";
      tokens_[count - 1].kind = 'w';
      return;
    }
    tokens_.push_back({kind, std::move(text)});
  }
  void close() {
    for (const Token& token : tokens_) {
      *form_ += '\x03';
      *form_ += token.kind;
      *form_ += token.text;
    }
    tokens_.clear();
  }

 private:
  struct Token {
    char kind = 0;  // 'w' if the token is a word, 's' for a string, 'o' for an operator
    std::string text;
  };

  static bool is_name(const std::string& text) {
    return !text.empty() && (text[0] < '0' || text[0] > '9') && std::ranges::all_of(text, is_word);
  }
  static bool ends_value(const Token& token) {
    return token.kind == 'w' || (token.kind == 'o' && (token.text == "]" || token.text == ")"));
  }

  std::string* form_;
  bool ends_with_data_ = false;
  std::vector<Token> tokens_;
};

class FormReader {
 public:
  explicit FormReader(std::string_view text) : text_(text), writer_(&form_) {}

  std::string read() && {
    while (at_ < text_.size()) {
      const size_t begin = find_open(at_);
      std::string_view data = text_.substr(at_, begin - at_);
      if (begin == text_.size()) {
        writer_.data(data);
        break;
      }
      const char kind = text_[begin + 1];
      const char sign = begin + 2 < text_.size() ? text_[begin + 2] : '\0';
      if (sign == '-') {
        while (!data.empty() && is_space(data.back())) data.remove_suffix(1);
      } else if (sign != '+' && kind != '{') {
        data = without_indent(data);
      }
      writer_.data(data);
      at_ = begin + 2 + (sign == '-' || sign == '+' ? 1 : 0);
      read_tag(kind);
    }
    return std::move(form_);
  }

 private:
  size_t find_open(size_t from) const {
    for (size_t i = from; i + 1 < text_.size(); ++i) {
      if (text_[i] == '{' && (text_[i + 1] == '{' || text_[i + 1] == '%' || text_[i + 1] == '#')) return i;
    }
    return text_.size();
  }

  // Implements Jinja's option lstrip_blocks, which removes blanks between the start of a line and a block tag.
  std::string_view without_indent(std::string_view data) const {
    size_t end = data.size();
    while (end > 0 && (data[end - 1] == ' ' || data[end - 1] == '\t')) --end;
    const bool is_line_start = end > 0 ? data[end - 1] == '\n' : at_ == 0 || text_[at_ - 1] == '\n';
    return is_line_start ? data.substr(0, end) : data;
  }

  void read_tag(char kind) {
    const std::string closing = {kind == '{' ? '}' : kind, '}'};
    if (kind != '#') writer_.open(kind);
    while (at_ < text_.size()) {
      const bool has_sign = text_[at_] == '-' || text_[at_] == '+';
      const size_t end = at_ + (has_sign ? 1 : 0);
      if (text_.substr(end, 2) == closing) {
        const char sign = has_sign ? text_[at_] : '\0';
        at_ = end + 2;
        after_tag(kind, sign);
        break;
      }
      kind == '#' ? static_cast<void>(++at_) : read_token();
    }
    if (kind != '#') writer_.close();
  }

  void after_tag(char kind, char sign) {
    if (sign == '-') {
      while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    } else if (sign != '+' && kind != '{' && at_ < text_.size() && text_[at_] == '\n') {
      ++at_;  // implements Jinja's option trim_blocks, which removes the line feed after a block tag
    }
  }

  void read_token() {
    const char c = text_[at_];
    if (is_space(c)) {
      ++at_;
    } else if (c == '\'' || c == '"') {
      read_string(c);
    } else if (is_word(c)) {
      const size_t begin = at_;
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
      writer_.token('w', std::string(text_.substr(begin, at_ - begin)));
    } else {
      static constexpr std::string_view kPairs[] = {"==", "!=", "<=", ">=", "//", "**"};
      const bool is_pair = std::ranges::find(kPairs, text_.substr(at_, 2)) != std::end(kPairs);
      writer_.token('o', std::string(text_.substr(at_, is_pair ? 2 : 1)));
      at_ += is_pair ? 2 : 1;
    }
  }

  void read_string(char quote) {
    std::string value;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] != '\\' || at_ + 1 == text_.size()) {
        value += text_[at_];
        continue;
      }
      const char escaped = text_[++at_];
      constexpr std::string_view kNames = "ntr'\"\\", kValues = "\n\t\r'\"\\";
      const size_t known = kNames.find(escaped);
      if (known == std::string_view::npos) value += '\\';
      value += known == std::string_view::npos ? escaped : kValues[known];
    }
    ++at_;
    writer_.token('s', std::move(value));
  }

  const std::string_view text_;
  std::string form_;
  FormWriter writer_;
  size_t at_ = 0;
};

}  // namespace

std::string template_form(std::string_view text) {
  std::string lines;
  lines.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    lines += text[i] == '\r' ? '\n' : text[i];
  }
  if (lines.ends_with('\n')) lines.pop_back();
  return FormReader(lines).read();
}

uint64_t template_fingerprint(std::string_view text) {
  return hash64(template_form(text));
}

}  // namespace plimsoll::text
