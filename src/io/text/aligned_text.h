// A text in code points, each with the part of the original text from which it came, and the changes that the steps of a pipeline make to
// it.
//
// The sources follow the rules of Hugging Face's NormalizedString, so that offsets of tokens equal those of Hugging Face: a replaced code
// point keeps its source, and an inserted one takes the source of the code point before it. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/tokenizer.h"

namespace plimsoll::text {

// A code point of a changed text. `change` is 0 if it replaces the next old code point, positive if it is
// inserted, and -n if it replaces the next old code point and n further ones are removed.
struct ChangedCodePoint {
  char32_t value = 0;
  int32_t change = 0;
};

struct AlignedText {
  std::u32string chars;
  std::vector<TextSpan> spans;  // one per code point
  int32_t begin = 0;            // index of the first code point in the original text

  // Replaces the contents by the decoded text. Requires: `utf8` is valid UTF-8, and its first code point is the one with the
  // index first_code_point in the original text.
  void assign(std::string_view utf8, int32_t first_code_point);
  void clear();
  void push(char32_t c, TextSpan span) {
    chars.push_back(c);
    spans.push_back(span);
  }
};

// Appends the code points [from, to) of `text`, changed, to `out`. The first `removed` of them are dropped
// without a replacement.
void append_changed(const AlignedText& text, size_t from, size_t to,
                    const std::vector<ChangedCodePoint>& changed, size_t removed, AlignedText* out);

// Checks that a step does not let a text grow without bound, as a chain of replacements could. `size` is the number of
// code points that the text would have, `before` the number before the step. Errors: kBadData with `where`.
void check_growth(size_t size, size_t before, const std::string& where);

// Replaces the whole text by the changed code points, as append_changed() does for a part of a text.
void change_text(const std::vector<ChangedCodePoint>& changed, size_t removed, AlignedText* text);

// Keeps the code points for which keep(c) is true.
template <typename Keep>
void filter_text(Keep&& keep, AlignedText* text) {
  size_t kept = 0;
  for (size_t i = 0; i < text->chars.size(); ++i) {
    if (!keep(text->chars[i])) continue;
    text->chars[kept] = text->chars[i];
    text->spans[kept] = text->spans[i];
    ++kept;
  }
  text->chars.resize(kept);
  text->spans.resize(kept);
}

// Unicode normalization forms (Unicode Standard Annex 15).
enum class NormalForm : uint8_t { kNfd, kNfkd, kNfc, kNfkc };
void apply_normal_form(NormalForm form, AlignedText* text);

}  // namespace plimsoll::text
