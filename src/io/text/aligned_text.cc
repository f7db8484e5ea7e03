#include "io/text/aligned_text.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "io/text/unicode.h"
#include "io/text/unicode_properties.h"

namespace plimsoll::text {

void AlignedText::clear() {
  chars.clear();
  spans.clear();
}

void AlignedText::assign(std::string_view utf8, int32_t first_code_point) {
  clear();
  begin = first_code_point;
  int32_t position = first_code_point;
  for (size_t i = 0; i < utf8.size(); ++position) {
    const DecodedCodePoint c = decode_valid_utf8(utf8.data() + i);
    push(c.value, {position, position + 1});
    i += c.num_bytes;
  }
}

void append_changed(const AlignedText& text, size_t from, size_t to,
                    const std::vector<ChangedCodePoint>& changed, size_t removed, AlignedText* out) {
  size_t next = from + removed;  // index in `text` of the next code point that is not yet replaced
  for (const ChangedCodePoint& c : changed) {
    if (c.change > 0) {
      out->push(c.value, next == 0 ? TextSpan{text.begin, text.begin} : text.spans[next - 1]);
      continue;
    }
    // A normalizer may report that it removed more code points than the text has. `next` can therefore be past the end of the text, and the
    // position of the last code point is used instead.
    const size_t at = std::min(next, text.spans.size() - 1);
    out->push(c.value, text.spans[at]);
    next = std::min(next + 1 + static_cast<size_t>(-c.change), to);
  }
}

void check_growth(size_t size, size_t before, const std::string& where) {
  constexpr size_t kMaxFactor = 32;
  constexpr size_t kAlwaysAllowed = 1 << 18;
  if (size <= kAlwaysAllowed || size / kMaxFactor <= before) return;
  throw_error(
      ErrorCode::kBadData,
      "{}: the normalizers and pre-tokenizers turn a text of {} characters into one of {}; correct them",
      where, before, size);
}

void change_text(const std::vector<ChangedCodePoint>& changed, size_t removed, AlignedText* text) {
  AlignedText out;
  out.begin = text->begin;
  if (!text->chars.empty()) append_changed(*text, 0, text->chars.size(), changed, removed, &out);
  *text = std::move(out);
}

namespace {

using Changed = std::vector<ChangedCodePoint>;

// Decomposes every code point and sorts combining characters into the canonical order. The first code point of a decomposition is
// marked as a replacement of the original one, and the others as insertions.
Changed decompose(std::u32string_view chars, bool compatible) {
  struct Part {
    ChangedCodePoint c;
    int rank;
  };
  const UnicodeTable& unicode = UnicodeTable::get();
  std::vector<Part> all;
  std::u32string parts;
  for (const char32_t c : chars) {
    parts.clear();
    if (compatible) {
      UnicodeProperties::get().decompose_compatible(c, &parts);
    } else {
      unicode.decompose(c, &parts);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      all.push_back({{parts[i], i > 0 ? 1 : 0}, unicode.combining_rank(parts[i])});
    }
  }
  const auto is_starter = [](const Part& part) { return part.rank == 0; };
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::find_if(begin, all.end(), is_starter);
    std::stable_sort(begin, end, [](const Part& a, const Part& b) { return a.rank < b.rank; });
    begin = std::find_if_not(end, all.end(), is_starter);
  }
  Changed out;
  out.reserve(all.size());
  for (const Part& part : all) out.push_back(part.c);
  return out;
}

// Composes decomposed text (Unicode 15.0, section 3.11, "Canonical Composition Algorithm"). A composite replaces two code points
// by one, so its ChangedCodePoint::change is the sum of both changes minus one.
Changed compose(const Changed& parts) {
  const UnicodeTable& unicode = UnicodeTable::get();
  Changed out;
  // index in `out` of the last starter (combining class 0), with which the code points after it may be composed
  std::optional<size_t> starter;
  int last_rank = -1;  // combining rank of the last code point in `out`; -1 if that is the starter
  for (const ChangedCodePoint& part : parts) {
    const int rank = unicode.combining_rank(part.value);
    if (starter && (last_rank < rank)) {
      ChangedCodePoint& first = out[*starter];
      const char32_t composite = UnicodeProperties::get().compose(first.value, part.value);
      if (composite != 0) {
        first = {composite, first.change + part.change - 1};
        continue;
      }
    }
    if (rank == 0) {
      starter = out.size();
      last_rank = -1;
    } else {
      last_rank = rank;
    }
    out.push_back(part);
  }
  return out;
}

}  // namespace

void apply_normal_form(NormalForm form, AlignedText* text) {
  const bool compatible = form == NormalForm::kNfkd || form == NormalForm::kNfkc;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  // ASCII text is the same in every Unicode normalization form, so nothing has to be done.
  if (std::all_of(text->chars.begin(), text->chars.end(), [](char32_t c) { return c < 128; })) return;
  if (!composes) return change_text(decompose(text->chars, compatible), 0, text);
  // Only the code points that composition may change, and the code point before each of them, are decomposed and composed.
  const std::u32string_view chars = text->chars;
  const uint16_t wanted = compatible ? kMayComposeCompatible : kMayCompose;
  const auto may_change = [&](char32_t c) { return (UnicodeProperties::get().flags(c) & wanted) != 0; };
  Changed changed;
  size_t done = 0;
  for (size_t at = 0; at < chars.size(); ++at) {
    if (!may_change(chars[at])) continue;
    const size_t begin = at > done ? at - 1 : at;
    for (; done < begin; ++done) changed.push_back({chars[done], 0});
    for (done = at + 1; done < chars.size() && may_change(chars[done]);) ++done;
    const Changed part = compose(decompose(chars.substr(begin, done - begin), compatible));
    changed.insert(changed.end(), part.begin(), part.end());
    at = done;  // the code point at `done` cannot change, so the loop continues after it
  }
  if (done == 0) return;
  for (; done < chars.size(); ++done) changed.push_back({chars[done], 0});
  change_text(changed, 0, text);
}

}  // namespace plimsoll::text
