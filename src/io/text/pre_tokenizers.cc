// Implements the pre-tokenizers of tokenizer.json, which split a text into words.
#include <algorithm>
#include <functional>
#include <map>

#include "base/check.h"
#include "io/text/byte_level.h"
#include "io/text/pattern.h"
#include "io/text/pipeline.h"
#include "io/text/unicode.h"
#include "io/text/unicode_properties.h"

namespace plimsoll::text {
namespace {

// Selects how a match at which a text is split is treated: it is removed, becomes a word of its own, is joined to the text before it or
// after it, or is joined to the matches directly next to it.
enum class Behavior : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// A range of a text that is either a match or the text between two matches.
struct Span {
  size_t begin;
  size_t end;
  bool is_match;
};

// Turns the ranges of a text (matches and the text between them) into words, as `behavior` requires: removes matches, or joins them to a
// neighbour. Appends the non-empty words to `out`.
void arrange(std::vector<Span> spans, Behavior behavior, std::vector<std::pair<size_t, size_t>>* out) {
  std::vector<std::pair<size_t, size_t>> joined;
  bool previous = false;
  switch (behavior) {
    case Behavior::kRemoved:
    case Behavior::kIsolated:
      for (const Span& span : spans) {
        if (behavior == Behavior::kIsolated || !span.is_match) joined.push_back({span.begin, span.end});
      }
      break;
    case Behavior::kMergedWithPrevious:
    case Behavior::kContiguous:
      for (const Span& span : spans) {
        const bool joins =
            behavior == Behavior::kContiguous ? span.is_match == previous : span.is_match && !previous;
        if (joins && !joined.empty()) {
          joined.back().second = span.end;
        } else {
          joined.push_back({span.begin, span.end});
        }
        previous = span.is_match;
      }
      break;
    case Behavior::kMergedWithNext:
      for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
        if (span->is_match && !previous && !joined.empty()) {
          joined.back().first = span->begin;
        } else {
          joined.push_back({span->begin, span->end});
        }
        previous = span->is_match;
      }
      std::reverse(joined.begin(), joined.end());
      break;
  }
  std::copy_if(joined.begin(), joined.end(), std::back_inserter(*out),
               [](const auto& part) { return part.first < part.second; });
}

// Returns the matches and the text between them as consecutive ranges.
std::vector<Span> with_gaps(const Matches& matches, size_t size) {
  std::vector<Span> spans;
  size_t done = 0;
  for (const auto& [begin, end] : matches) {
    if (done < begin) spans.push_back({done, begin, false});
    spans.push_back({begin, end, true});
    done = end;
  }
  if (done < size) spans.push_back({done, size, false});
  return spans;
}

// Splits every part of the text again: `find` returns ranges for the text of a part, relative to its beginning, which replace the part.
void split_parts(
    const std::function<void(std::u32string_view, std::vector<std::pair<size_t, size_t>>*)>& find,
    Words* words) {
  std::vector<Words::Part> parts;
  std::vector<std::pair<size_t, size_t>> found;
  for (const Words::Part& part : words->parts) {
    found.clear();
    find(std::u32string_view(words->text.chars).substr(part.begin, part.end - part.begin), &found);
    for (const auto& [begin, end] : found) {
      parts.push_back({part.begin + begin, part.begin + end, words->text.spans[part.begin + begin].begin});
    }
  }
  words->parts = std::move(parts);
}

// Splits the text at each code point for which is_delimiter() is true.
class CharSplit : public PreTokenizer {
 public:
  CharSplit(std::function<bool(char32_t)> is_delimiter, Behavior behavior)
      : is_delimiter_(std::move(is_delimiter)), behavior_(behavior) {}
  void split(Words* words) const override {
    split_parts(
        [&](std::u32string_view text, auto* out) {
          Matches matches;
          for (size_t i = 0; i < text.size(); ++i) {
            if (is_delimiter_(text[i])) matches.push_back({i, i + 1});
          }
          arrange(with_gaps(matches, text.size()), behavior_, out);
        },
        words);
  }

 private:
  std::function<bool(char32_t)> is_delimiter_;
  Behavior behavior_;
};

class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(Pattern pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(Words* words) const override {
    split_parts(
        [&](std::u32string_view text, auto* out) {
          Matches matches;
          pattern_.find_all(text, &matches);
          std::vector<Span> spans = with_gaps(matches, text.size());
          if (invert_) {
            for (Span& span : spans) span.is_match = !span.is_match;
          }
          arrange(std::move(spans), behavior_, out);
        },
        words);
  }

 private:
  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

// Calls `change` for the text of each part, and joins the changed parts to the new text.
void change_parts(const std::function<void(AlignedText*, int32_t origin)>& change, Words* words) {
  AlignedText all, text;
  all.begin = words->text.begin;
  for (Words::Part& part : words->parts) {
    text.clear();
    text.begin = part.origin;
    for (size_t i = part.begin; i < part.end; ++i) text.push(words->text.chars[i], words->text.spans[i]);
    change(&text, part.origin);
    part.begin = all.chars.size();
    for (size_t i = 0; i < text.chars.size(); ++i) all.push(text.chars[i], text.spans[i]);
    part.end = all.chars.size();
  }
  words->text = std::move(all);
}

// Marks the beginning of every word with a special character (usually U+2581), as SentencePiece does.
class Metaspace : public PreTokenizer {
 public:
  enum class Scheme : uint8_t { kAlways, kFirst, kNever };
  Metaspace(char32_t mark, Scheme prepend, bool splits, const std::string& where)
      : mark_(1, mark),
        spaces_(std::u32string(1, U' '), where),
        marks_(mark_, where),
        prepend_(prepend),
        splits_(splits) {}
  void split(Words* words) const override {
    change_parts(
        [&](AlignedText* text, int32_t origin) {
          replace_matches(spaces_, mark_, text);
          const bool wanted = prepend_ == Scheme::kAlways || (prepend_ == Scheme::kFirst && origin == 0);
          if (wanted && !text->chars.starts_with(mark_)) prepend_text(mark_, text);
        },
        words);
    if (!splits_) return;
    split_parts(
        [&](std::u32string_view text, auto* out) {
          Matches matches;
          marks_.find_all(text, &matches);
          arrange(with_gaps(matches, text.size()), Behavior::kMergedWithNext, out);
        },
        words);
  }

 private:
  std::u32string mark_;
  Pattern spaces_, marks_;
  Scheme prepend_;
  bool splits_;
};

// Splits a text into words as GPT-2 does, and then replaces each byte by the printable character that represents it.
class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool adds_space, bool uses_regex) : adds_space_(adds_space), uses_regex_(uses_regex) {}
  void split(Words* words) const override {
    if (adds_space_) {
      change_parts(
          [](AlignedText* text, int32_t) {
            if (!text->chars.starts_with(U' ')) prepend_text(U" ", text);
          },
          words);
    }
    if (uses_regex_) split_parts(&ByteLevel::find_words, words);
    change_parts(
        [](AlignedText* text, int32_t) {
          AlignedText out;
          for (size_t i = 0; i < text->chars.size(); ++i)
            append_byte_characters(text->chars[i], text->spans[i], &out);
          *text = std::move(out);
        },
        words);
  }

 private:
  // Matches the regular expression 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ of GPT-2, without
  // the general engine.
  static void find_words(std::u32string_view text, std::vector<std::pair<size_t, size_t>>* out) {
    enum class Kind : uint8_t { kLetter, kNumber, kSpace, kOther };
    static const uint32_t letters = UnicodeProperties::categories("L"),
                          numbers = UnicodeProperties::categories("N");
    const auto kind = [&](size_t i) {
      const uint16_t flags = UnicodeProperties::get().flags(text[i]);
      const uint32_t category = uint32_t{1} << (flags & kCategoryMask);
      return (category & letters) != 0    ? Kind::kLetter
             : (category & numbers) != 0  ? Kind::kNumber
             : (flags & kRegexSpace) != 0 ? Kind::kSpace
                                          : Kind::kOther;
    };
    for (size_t at = 0; at < text.size();) {
      size_t end = at + contraction(text.substr(at));
      if (end == at) {
        const size_t first =
            text[at] == U' ' && at + 1 < text.size() && kind(at + 1) != Kind::kSpace ? at + 1 : at;
        const Kind wanted = kind(first);
        for (end = first + 1; end < text.size() && kind(end) == wanted; ++end) {
        }
        // If several spaces precede a word, the last one becomes a part of the word.
        if (wanted == Kind::kSpace && end < text.size() && end - at > 1) --end;
      }
      out->push_back({at, end});
      at = end;
    }
  }
  static size_t contraction(std::u32string_view text) {
    for (const std::u32string_view end : {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"}) {
      if (text.starts_with(end)) return end.size();
    }
    return 0;
  }

  bool adds_space_, uses_regex_;
};

Behavior read_behavior(const JsonFields& fields, std::optional<std::string> fallback) {
  static const std::map<std::string, Behavior> kNames = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous}};
  std::optional<std::string> name = fields.text("behavior");
  if (!name) name = std::move(fallback);
  const auto found = kNames.find(name.value_or(""));
  if (found == kNames.end()) {
    throw_error(
        ErrorCode::kBadData,
        "{} is '{}' but should be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous; "
        "correct the file",
        fields.name_of("behavior"), name.value_or("(absent)"));
  }
  return found->second;
}

// Reads a field that must be a text of exactly one character. If the field is absent, `fallback` is used.
char32_t read_character(const JsonFields& fields, const char* key, std::optional<std::string> fallback) {
  std::optional<std::string> text = fields.text(key);
  if (!text) text = std::move(fallback);
  const std::u32string chars = to_code_points(text.value_or(""));
  if (chars.size() != 1) {
    throw_error(ErrorCode::kBadData, "{} is '{}' but should be one character; correct the file",
                fields.name_of(key), text.value_or("(absent)"));
  }
  return chars[0];
}

std::unique_ptr<PreTokenizer> read_metaspace(const JsonFields& fields) {
  using Scheme = Metaspace::Scheme;
  const std::string scheme = fields.text("prepend_scheme").value_or("always");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    throw_error(ErrorCode::kBadData, "{} is '{}' but should be always, first or never; correct the file",
                fields.name_of("prepend_scheme"), scheme);
  }
  Scheme prepend = scheme == "always" ? Scheme::kAlways : scheme == "first" ? Scheme::kFirst : Scheme::kNever;
  // Older files contain the flag add_prefix_space instead of the field prepend_scheme.
  if (!fields.flag_or("add_prefix_space", true)) prepend = Scheme::kNever;
  return std::make_unique<Metaspace>(read_character(fields, "replacement", "\xE2\x96\x81"), prepend,
                                     fields.flag_or("split", true), fields.name_of("type"));
}

std::unique_ptr<PreTokenizer> char_split(std::function<bool(char32_t)> is_delimiter, Behavior behavior) {
  return std::make_unique<CharSplit>(std::move(is_delimiter), behavior);
}

bool is_space(char32_t c) {
  return (UnicodeTable::get().flags(c) & kWhitespace) != 0;
}
bool is_punctuation(char32_t c) {
  return (UnicodeTable::get().flags(c) & kPunctuation) != 0;
}

// Splits a text into sequences of word characters and sequences of other characters, and drops white space.
class Whitespace : public PreTokenizer {
 public:
  void split(Words* words) const override {
    split_parts(
        [](std::u32string_view text, auto* out) {
          const auto kind = [&](size_t i) {
            const uint8_t flags = UnicodeTable::get().flags(text[i]);
            return (flags & kWordCharacter) != 0 ? 2 : (flags & kWhitespace) != 0 ? 0 : 1;
          };
          for (size_t at = 0; at < text.size();) {
            const int wanted = kind(at);
            size_t end = at + 1;
            while (end < text.size() && kind(end) == wanted) ++end;
            if (wanted != 0) out->push_back({at, end});
            at = end;
          }
        },
        words);
  }
};

void read_pre_tokenizer(const JsonFields& fields, const std::string& type,
                        std::vector<std::unique_ptr<PreTokenizer>>* steps) {
  if (type == "BertPreTokenizer") {
    steps->push_back(char_split(is_space, Behavior::kRemoved));
    steps->push_back(char_split(is_punctuation, Behavior::kIsolated));
  } else if (type == "Whitespace") {
    steps->push_back(std::make_unique<Whitespace>());
  } else if (type == "WhitespaceSplit") {
    steps->push_back(char_split(is_space, Behavior::kRemoved));
  } else if (type == "Punctuation") {
    steps->push_back(char_split(is_punctuation, read_behavior(fields, "Isolated")));
  } else if (type == "Digits") {
    const bool individual = fields.flag_or("individual_digits", false);
    steps->push_back(
        char_split([](char32_t c) { return (UnicodeProperties::get().flags(c) & kNumeric) != 0; },
                   individual ? Behavior::kIsolated : Behavior::kContiguous));
  } else if (type == "CharDelimiterSplit") {
    const char32_t delimiter = read_character(fields, "delimiter", std::nullopt);
    steps->push_back(char_split([delimiter](char32_t c) { return c == delimiter; }, Behavior::kRemoved));
  } else if (type == "Split") {
    steps->push_back(std::make_unique<PatternSplit>(read_pattern(fields), read_behavior(fields, std::nullopt),
                                                    fields.flag_or("invert", false)));
  } else if (type == "Metaspace") {
    steps->push_back(read_metaspace(fields));
  } else if (type == "ByteLevel") {
    steps->push_back(std::make_unique<ByteLevel>(fields.flag_or("add_prefix_space", true),
                                                 fields.flag_or("use_regex", true)));
  } else {
    throw_error(ErrorCode::kBadData,
                "{} is '{}', a pre-tokenizer that Plimsoll does not have; use a tokenizer without it",
                fields.name_of("type"), type);
  }
}

}  // namespace

void read_pre_tokenizers(const JsonFields& fields, std::vector<std::unique_ptr<PreTokenizer>>* steps) {
  const std::string type = fields.text("type").value_or("(none)");
  if (type != "Sequence") return read_pre_tokenizer(fields, type, steps);
  for (const JsonFields& step : fields.required_objects("pretokenizers")) read_pre_tokenizers(step, steps);
}

void Pipeline::normalize(AlignedText* text) const {
  const size_t before = text->chars.size();
  for (const auto& step : normalizers) {
    if (!text->chars.empty()) step->normalize(text);
    check_growth(text->chars.size(), before, where);
  }
}

void Pipeline::split(Words* words) const {
  split_by(pre_tokenizers.size(), words);
}

void Pipeline::split_except_last(Words* words) const {
  split_by(pre_tokenizers.size() - 1, words);
}

void Pipeline::split_by(size_t num_steps, Words* words) const {
  words->parts.clear();
  if (words->text.chars.empty()) return;
  words->parts.push_back({0, words->text.chars.size(), words->text.begin});
  const size_t before = words->text.chars.size();
  for (size_t i = 0; i < num_steps; ++i) {
    pre_tokenizers[i]->split(words);
    check_growth(words->text.chars.size(), before, where);
  }
}

}  // namespace plimsoll::text
