#include "io/text/pattern.h"

#include "base/check.h"
#include "io/text/unicode.h"

namespace plimsoll::text {

void Pattern::find_all(std::u32string_view text, Matches* matches) const {
  // As in Hugging Face's tokenizers, nothing matches in an empty text, not even a pattern that matches the empty string.
  if (text.empty()) return;
  if (regex_) return regex_->find_all(text, matches);
  if (literal_.empty()) {
    // If the string to search for is empty, it matches before every code point and at the end of the text.
    for (size_t i = 0; i <= text.size(); ++i) matches->push_back({i, i});
    return;
  }
  for (size_t at = text.find(literal_); at != std::u32string_view::npos;
       at = text.find(literal_, at + literal_.size())) {
    matches->push_back({at, at + literal_.size()});
  }
}

std::u32string to_code_points(std::string_view utf8) {
  std::u32string result;
  for (size_t i = 0; i < utf8.size();) {
    const DecodedCodePoint c = decode_utf8(utf8.substr(i));
    result.push_back(c.value);
    i += c.num_bytes;
  }
  return result;
}

Pattern read_pattern(const JsonFields& fields) {
  const auto pattern = fields.object("pattern");
  const auto text = pattern ? pattern->text("String") : std::nullopt;
  const auto regex = pattern ? pattern->text("Regex") : std::nullopt;
  if (text.has_value() == regex.has_value()) {
    throw_error(ErrorCode::kBadData, "{} should be one \"String\" or one \"Regex\"; correct the file",
                fields.name_of("pattern"));
  }
  return text ? Pattern(to_code_points(*text), fields.name_of("pattern"))
              : Pattern(Regex(*regex, pattern->name_of("Regex")), fields.name_of("pattern"));
}

void replace_matches(const Pattern& pattern, std::u32string_view content, AlignedText* text) {
  Matches matches;
  pattern.find_all(text->chars, &matches);
  if (matches.empty()) return;
  check_growth(text->chars.size() + matches.size() * content.size(), text->chars.size(), pattern.where());
  AlignedText out;
  out.begin = text->begin;
  size_t done = 0;
  const auto copy_until = [&](size_t end) {
    for (; done < end; ++done) out.push(text->chars[done], text->spans[done]);
  };
  for (const auto& [begin, end] : matches) {
    copy_until(begin);
    const TextSpan span = end == 0 ? TextSpan{text->begin, text->begin} : text->spans[end - 1];
    for (const char32_t c : content) out.push(c, span);
    done = end;
  }
  copy_until(text->chars.size());
  *text = std::move(out);
}

void prepend_text(std::u32string_view prefix, AlignedText* text) {
  if (text->chars.empty()) return;
  text->chars.insert(0, prefix);
  text->spans.insert(text->spans.begin(), prefix.size(), text->spans.front());
}

}  // namespace plimsoll::text
