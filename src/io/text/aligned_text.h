// A text as code points, in which each code point has the range of the original text from which it came, and the functions with
// which the steps of a tokenizer change such a text.
//
// The ranges follow the rules of Hugging Face's NormalizedString, so that offsets of tokens equal those of Hugging Face: a code
// point that replaces another one has the range of the replaced one, and an inserted code point has the range of the code point
// before it. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/tokenizer.h"

namespace plimsoll::text {

// A code point in the output of a step that changes a text. `change` relates it to the input: 0 if it replaces the next input
// code point, positive if it is inserted, and -n if it replaces the next input code point and the n input code points after that
// are removed.
struct ChangedCodePoint {
  char32_t value = 0;
  int32_t change = 0;
};

struct AlignedText {
  std::u32string chars;
  std::vector<TextSpan> spans;  // the range of each code point in the original text
  int32_t begin = 0;            // index in the original text of the first code point

  // Decodes `utf8` and replaces the contents of this object by it. Requires: `utf8` is valid UTF-8, and its first code point has
  // the index first_code_point in the original text.
  void assign(std::string_view utf8, int32_t first_code_point);
  void clear();
  void push(char32_t c, TextSpan span) {
    chars.push_back(c);
    spans.push_back(span);
  }
};

// Appends the code points `changed`, which replace the code points [from, to) of `text`, to `out`. A code point of `changed` gets its range
// of the original text from the code point that it replaces or, if it is inserted, from the code point before it. The first `removed` code
// points of [from, to) have no replacement.
void append_changed(const AlignedText& text, size_t from, size_t to,
                    const std::vector<ChangedCodePoint>& changed, size_t removed, AlignedText* out);

// Limits the growth of a text in one step of a pipeline, because a chain of replacements could otherwise make it arbitrarily
// long. `size` is the number of code points that the text would have after the step, and `before` the number before it. Errors:
// kBadData, whose message begins with `where`, if the growth is too large.
void check_growth(size_t size, size_t before, const std::string& where);

// Replaces the whole text by the code points `changed`. The parameters have the same meaning as for append_changed().
void change_text(const std::vector<ChangedCodePoint>& changed, size_t removed, AlignedText* text);

// Removes the code points for which keep(c) is false.
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
