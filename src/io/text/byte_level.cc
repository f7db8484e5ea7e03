#include "io/text/byte_level.h"

#include <algorithm>
#include <iterator>

#include "io/text/unicode.h"
#include "io/text/unicode_properties.h"

namespace plimsoll::text {
namespace {

// The alphabet of byte-level BPE, which represents every byte by a printable character: a printable byte by itself, any other
// byte by a code point from 256 on.
struct ByteCharacters {
  std::array<char32_t, 256> characters{};
  std::array<int16_t, 512> bytes{};  // the byte that a code point represents, or -1 if it represents none

  ByteCharacters() {
    bytes.fill(-1);
    char32_t next = 256;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
      characters[byte] = printable ? byte : next++;
      bytes[characters[byte]] = static_cast<int16_t>(byte);
    }
  }

  static const ByteCharacters& get() {
    static const ByteCharacters table;
    return table;
  }
};

// The classes of code points that the three regular expressions of WordPattern distinguish. Each code point belongs to exactly one.
enum class Kind : uint8_t { kLetter, kNumber, kSpace, kOther };

// The class of each code point: from a table for ASCII, and from the Unicode properties for all others.
class Kinds {
 public:
  static const Kinds& get() {
    static const Kinds table;
    return table;
  }

  // Returns the class of the code point that starts at `p`, and stores its length in `num_bytes`.
  Kind at(const char* p, uint32_t* num_bytes) const {
    const auto byte = static_cast<unsigned char>(*p);
    if (byte < 128) {
      *num_bytes = 1;
      return ascii_[byte];
    }
    const DecodedCodePoint c = decode_valid_utf8(p);
    *num_bytes = c.num_bytes;
    return of(c.value);
  }

 private:
  Kinds() {
    const uint32_t letters = UnicodeProperties::categories("L"), numbers = UnicodeProperties::categories("N");
    for (uint32_t category = 0; category < by_category_.size(); ++category) {
      by_category_[category] = (letters >> category & 1u) != 0   ? Kind::kLetter
                               : (numbers >> category & 1u) != 0 ? Kind::kNumber
                                                                 : Kind::kOther;
    }
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = of(c);
  }
  Kind of(char32_t c) const {
    const uint16_t flags = UnicodeProperties::get().flags(c);
    return (flags & kRegexSpace) != 0 ? Kind::kSpace : by_category_[flags & kCategoryMask];
  }

  std::array<Kind, 128> ascii_{};
  std::array<Kind, 32> by_category_{};
};

// Finds the end of the word that starts at a given position of a text.
class Scanner {
 public:
  Scanner(std::string_view text, size_t begin) : text_(text), begin_(begin), kinds_(Kinds::get()) {}

  size_t gpt2_word() const {
    if (const size_t end = contraction(/*ignores_case=*/false); end != begin_) return end;
    size_t first = begin_;
    if (text_[begin_] == ' ' && begin_ + 1 < text_.size() && kind(begin_ + 1) != Kind::kSpace) ++first;
    const Kind wanted = kind(first);
    return wanted == Kind::kSpace ? spaces() : run(first, wanted);
  }

  size_t cl100k_word(int max_digits) const {
    if (const size_t end = contraction(/*ignores_case=*/true); end != begin_) return end;
    uint32_t first_bytes = 0;
    const Kind first = kinds_.at(text_.data() + begin_, &first_bytes);
    if (first == Kind::kLetter) return run(begin_, Kind::kLetter);
    if (first == Kind::kNumber) return run(begin_, Kind::kNumber, max_digits);
    const size_t second = begin_ + first_bytes;
    const bool has_second = second < text_.size();
    if (has_second && !is_newline(text_[begin_]) && kind(second) == Kind::kLetter) {
      return run(second, Kind::kLetter);
    }
    const bool space_first = text_[begin_] == ' ' && has_second && kind(second) == Kind::kOther;
    if (first == Kind::kOther || space_first) {
      size_t end = run(space_first ? second : begin_, Kind::kOther);
      while (end < text_.size() && is_newline(text_[end])) ++end;
      return end;
    }
    // The word starts with white space that may contain line breaks. If it does, the word ends after the last line break. Otherwise
    // spaces() finds the end of the word.
    const size_t end = run(begin_, Kind::kSpace);
    const size_t newline = text_.substr(begin_, end - begin_).find_last_of("\r\n");
    return newline != std::string_view::npos ? begin_ + newline + 1 : spaces();
  }

 private:
  static bool is_newline(char c) { return c == '\r' || c == '\n'; }

  Kind kind(size_t at) const {
    uint32_t num_bytes = 0;
    return kinds_.at(text_.data() + at, &num_bytes);
  }

  // Returns the end of the sequence of code points of class `wanted` that starts at `at`. If `limit` is not negative, the
  // sequence has at most that many code points.
  size_t run(size_t at, Kind wanted, int limit = -1) const {
    uint32_t num_bytes = 0;
    while (at < text_.size() && limit-- != 0 && kinds_.at(text_.data() + at, &num_bytes) == wanted) {
      at += num_bytes;
    }
    return at;
  }

  // Matches the white space that starts at begin_, as \s+(?!\S)|\s+ does: if other text follows, the last white-space character is left for
  // the next match, unless it is the only one.
  size_t spaces() const {
    const size_t end = run(begin_, Kind::kSpace);
    if (end == text_.size()) return end;
    size_t last = end - 1;
    while ((text_[last] & 0xC0) == 0x80) --last;
    return last > begin_ ? last : end;
  }

  // Matches an English contraction: 's, 't, 're, 've, 'm, 'll or 'd. Returns begin_ if there is none.
  size_t contraction(bool ignores_case) const {
    if (text_[begin_] != '\'' || begin_ + 1 >= text_.size()) return begin_;
    const auto letter = [&](size_t at) {
      const char c = at < text_.size() ? text_[at] : '\0';
      return ignores_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter(begin_ + 1), second = letter(begin_ + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin_ + 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
        (first == 'l' && second == 'l')) {
      return begin_ + 3;
    }
    // With case ignored, the letter s of a contraction is also matched by U+017F, the long s.
    if (ignores_case && text_.substr(begin_ + 1).starts_with("\xC5\xBF")) return begin_ + 3;
    return begin_;
  }

  std::string_view text_;
  size_t begin_;
  const Kinds& kinds_;
};

constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// The expression of GPT-2 as newer tokenizer.json files spell it. It matches the same words as kGpt2Regex.
constexpr std::string_view kGpt2RegexGrouped =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kThreeDigitsRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kOneDigitRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string type_of(const JsonFields& fields) {
  return fields.text("type").value_or("");
}

// Appends a pre-tokenizer to the list. A Sequence is replaced by its elements.
void append_steps(const JsonFields& fields, std::vector<JsonFields>* steps) {
  if (type_of(fields) != "Sequence") {
    steps->push_back(fields);
    return;
  }
  for (const JsonFields& step : fields.required_objects("pretokenizers")) append_steps(step, steps);
}

// Returns the word pattern of a pre-tokenizer of type Split. Returns nothing if its regular expression is not in the list of known ones, or
// if its options are not those with which each match becomes one word.
std::optional<WordPattern> find_split_pattern(const JsonFields& split) {
  if (type_of(split) != "Split" || split.text("behavior") != "Isolated" || split.flag_or("invert", false))
    return std::nullopt;
  const auto pattern = split.object("pattern");
  const auto regex = pattern ? pattern->text("Regex") : std::nullopt;
  return regex ? find_word_pattern(*regex) : std::nullopt;
}

}  // namespace

char32_t byte_character(uint8_t byte) {
  return ByteCharacters::get().characters[byte];
}

std::optional<uint8_t> byte_of_character(char32_t c) {
  const auto& bytes = ByteCharacters::get().bytes;
  if (c >= bytes.size() || bytes[c] < 0) return std::nullopt;
  return static_cast<uint8_t>(bytes[c]);
}

void append_byte_characters(char32_t c, TextSpan span, AlignedText* out) {
  char bytes[4];
  const uint32_t count = encode_utf8(c, bytes);
  for (uint32_t i = 0; i < count; ++i) out->push(byte_character(static_cast<uint8_t>(bytes[i])), span);
}

std::string_view word_pattern_regex(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::kGpt2:
      return kGpt2Regex;
    case WordPattern::kThreeDigits:
      return kThreeDigitsRegex;
    case WordPattern::kOneDigit:
      return kOneDigitRegex;
    case WordPattern::kNone:
      break;
  }
  return {};
}

std::optional<WordPattern> find_word_pattern(std::string_view regex) {
  if (regex == kGpt2Regex || regex == kGpt2RegexGrouped) return WordPattern::kGpt2;
  if (regex == kThreeDigitsRegex) return WordPattern::kThreeDigits;
  if (regex == kOneDigitRegex) return WordPattern::kOneDigit;
  return std::nullopt;
}

std::optional<ByteLevelSteps> find_byte_level_steps(const std::optional<JsonFields>& normalizer,
                                                    const std::optional<JsonFields>& pre_tokenizer) {
  ByteLevelSteps steps;
  if (normalizer) {
    std::vector<std::string> types{type_of(*normalizer)};
    if (types[0] == "Sequence") {
      types.clear();
      for (const JsonFields& step : normalizer->required_objects("normalizers"))
        types.push_back(type_of(step));
    }
    if (types.size() > 1 || (types.size() == 1 && types[0] != "NFC")) return std::nullopt;
    steps.composes = !types.empty();
  }
  if (!pre_tokenizer) return std::nullopt;
  std::vector<JsonFields> parts;
  append_steps(*pre_tokenizer, &parts);
  if (parts.empty() || type_of(parts.back()) != "ByteLevel") return std::nullopt;
  const JsonFields& last = parts.back();
  // If ByteLevel comes after another pre-tokenizer and has add_prefix_space, it inserts a space into each part of the text. Words are then
  // no longer parts of the original text, so this fast path cannot be used.
  if (last.flag_or("add_prefix_space", true) && parts.size() > 1) return std::nullopt;
  steps.adds_space = last.flag_or("add_prefix_space", true);
  const bool uses_regex = last.flag_or("use_regex", true);
  if (!uses_regex) steps.pattern = WordPattern::kNone;
  if (parts.size() == 1) return steps;
  if (parts.size() == 2 && !uses_regex) {
    if (const auto known = find_split_pattern(parts[0])) {
      steps.pattern = *known;
      return steps;
    }
  }
  constexpr std::string_view kSplitters[] = {"Split",           "Digits",          "Punctuation",
                                             "Whitespace",      "WhitespaceSplit", "CharDelimiterSplit",
                                             "BertPreTokenizer"};
  steps.has_splitters = true;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (std::find(std::begin(kSplitters), std::end(kSplitters), type_of(parts[i])) == std::end(kSplitters))
      return std::nullopt;
  }
  return steps;
}

size_t byte_level_word_end(WordPattern pattern, std::string_view text, size_t begin) {
  switch (pattern) {
    case WordPattern::kGpt2:
      return Scanner(text, begin).gpt2_word();
    case WordPattern::kThreeDigits:
      return Scanner(text, begin).cl100k_word(3);
    case WordPattern::kOneDigit:
      return Scanner(text, begin).cl100k_word(1);
    case WordPattern::kNone:
      break;
  }
  return text.size();
}

bool surely_composed(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    // U+0300 is the first code point that composition can change, and its first byte is 0xCC. Smaller bytes can be skipped.
    if (static_cast<unsigned char>(text[i]) < 0xCC) {
      ++i;
      continue;
    }
    const DecodedCodePoint c = decode_valid_utf8(text.data() + i);
    if ((UnicodeProperties::get().flags(c.value) & kMayCompose) != 0) return false;
    i += c.num_bytes;
  }
  return true;
}

}  // namespace plimsoll::text
