#include "io/text/bert_normalizer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace plimsoll::text {
namespace {

// Each function below does one step of the normalization as Hugging Face's tokenizers do it. The source of a code point is its
// index in the original text. A code point that a step inserts has the source of the code point before it.

void clean(SourcedText* text) {
  SourcedText out;
  for (size_t i = 0; i < text->code_points.size(); ++i) {
    const char32_t c = text->code_points[i];
    const uint8_t flags = UnicodeTable::get().flags(c);
    if (flags & kRemoved) continue;
    out.push(flags & kWhitespace ? U' ' : c, text->source[i]);
  }
  *text = std::move(out);
}

void space_cjk(SourcedText* text) {
  SourcedText out;
  for (size_t i = 0; i < text->code_points.size(); ++i) {
    const char32_t c = text->code_points[i];
    const bool cjk = UnicodeTable::get().flags(c) & kCjk;
    if (cjk) out.push(U' ', text->source[i]);
    out.push(c, text->source[i]);
    if (cjk) out.push(U' ', text->source[i]);
  }
  *text = std::move(out);
}

// Decomposes the text (normalization form NFD) and sorts combining characters into the canonical order. The sources (positions in the
// original text) are assigned after sorting, as in Hugging Face's tokenizers, so they stay in ascending order.
void decompose(SourcedText* text) {
  struct Part {
    int rank;
    char32_t value;
    bool inserted;
  };
  const UnicodeTable& unicode = UnicodeTable::get();
  std::vector<Part> parts;
  std::u32string decomposition;
  for (const char32_t c : text->code_points) {
    decomposition.clear();
    unicode.decompose(c, &decomposition);
    for (size_t i = 0; i < decomposition.size(); ++i) {
      parts.push_back({unicode.combining_rank(decomposition[i]), decomposition[i], i > 0});
    }
  }
  const auto by_rank = [](const Part& a, const Part& b) { return a.rank < b.rank; };
  for (size_t begin = 0; begin < parts.size();) {
    size_t end = begin + 1;
    while (end < parts.size() && parts[end].rank != 0) ++end;
    std::stable_sort(parts.begin() + static_cast<std::ptrdiff_t>(begin),
                     parts.begin() + static_cast<std::ptrdiff_t>(end), by_rank);
    begin = end;
  }
  SourcedText out;
  size_t next = 0;  // number of input code points for which a replacement was appended so far
  for (const Part& part : parts) {
    if (!part.inserted) ++next;
    out.push(part.value, text->source[next == 0 ? 0 : next - 1]);
  }
  *text = std::move(out);
}

void drop_marks(SourcedText* text) {
  SourcedText out;
  for (size_t i = 0; i < text->code_points.size(); ++i) {
    if (UnicodeTable::get().flags(text->code_points[i]) & kNonspacingMark) continue;
    out.push(text->code_points[i], text->source[i]);
  }
  *text = std::move(out);
}

void lower(SourcedText* text) {
  SourcedText out;
  std::u32string low;
  for (size_t i = 0; i < text->code_points.size(); ++i) {
    low.clear();
    UnicodeTable::get().to_lower(text->code_points[i], &low);
    for (const char32_t c : low) out.push(c, text->source[i]);
  }
  *text = std::move(out);
}

constexpr uint64_t repeat(uint8_t byte) {
  return byte * 0x0101010101010101u;
}

// Lower-cases eight ASCII bytes. The addition sets the top bit of a byte exactly if the byte is in 'A'..'Z'.
constexpr uint64_t lower_ascii(uint64_t bytes) {
  const uint64_t at_least_a = bytes + repeat(0x80 - 'A');
  const uint64_t above_z = bytes + repeat(0x80 - 'Z' - 1);
  const uint64_t upper = (at_least_a ^ above_z) & repeat(0x80);
  return bytes | upper >> 2;
}

// Returns true if any of eight bytes is a control character (below 0x20, or 0x7F) or not ASCII. Text with such bytes needs more
// than lower-casing.
constexpr bool has_control_or_high(uint64_t bytes) {
  const uint64_t below_space = (bytes - repeat(0x20)) & ~bytes;
  const uint64_t above_tilde = bytes + repeat(1);
  return ((below_space | above_tilde | bytes) & repeat(0x80)) != 0;
}

}  // namespace

BertNormalizer::BertNormalizer(const NormalizerSpec& spec)
    : spec_(spec), strips_accents_(spec.strips_accents()) {
  fill_entries();
  for (char32_t c = 0; c < 128; ++c) {
    const uint16_t e = entry(c);
    const auto place = static_cast<size_t>(e >> kActionBits);
    ascii_[c] = static_cast<uint8_t>(c);
    switch (e & ((1 << kActionBits) - 1)) {
      case kKeep:
        break;
      case kDrop:
        ascii_dropped_[c] = true;
        break;
      case kSpace:
        ascii_[c] = ' ';
        break;
      case kMap:
        PLIMSOLL_CHECK(mapped_[place].num_bytes == 1);
        ascii_[c] = static_cast<uint8_t>(mapped_[place].bytes[0]);
        break;
      default:
        PLIMSOLL_CHECK(false, "the action of an ASCII character must be kKeep, kDrop, kSpace or kMap");
    }
  }
}

BertNormalizer::Action BertNormalizer::action_by_flags(uint8_t flags) const {
  if (spec_.clean_text && (flags & kRemoved)) return kDrop;
  if (spec_.clean_text && (flags & kWhitespace)) return kSpace;
  if (strips_accents_ && (flags & kNonspacingMark)) return kDrop;
  if (spec_.handle_chinese_chars && (flags & kCjk)) return kSpaced;
  return kKeep;
}

// Fills the table that maps each code point to its action. It consists of pages of kPageSize entries. Ranges of code points with the same
// Unicode flags share one page. As soon as a code point of a range needs another entry, its range gets a copy of the page.
void BertNormalizer::fill_entries() {
  const UnicodeTable& unicode = UnicodeTable::get();
  std::vector<int> made(unicode.num_pages(), -1);
  std::vector<uint16_t> page(kPageSize);
  for (char32_t first = 0; first < kNumCodePoints; first += kPageSize) {
    int& number = made[unicode.page_number(first)];
    if (number < 0) {
      for (size_t i = 0; i < kPageSize; ++i) {
        page[i] = action_by_flags(unicode.flags(first + static_cast<char32_t>(i)));
      }
      number = add_page(page, Sharing::kShared);
    }
    page_of_.push_back(static_cast<uint16_t>(number));
  }
  if (strips_accents_) {
    for (char32_t c = 0xAC00; is_hangul_syllable(c); ++c) set_entry(c, kHangul);
  }

  const auto reorders = [&](char32_t c) {
    return unicode.combining_rank(c) != 0 && (unicode.flags(c) & kNonspacingMark) == 0;
  };
  std::u32string text;
  for (const char32_t c : unicode.mapped_code_points()) {
    map_code_point(c, &text);
    if (text.size() == 1 && text[0] == c) continue;
    if (text.empty() || text == U" ") {
      set_entry(c, text.empty() ? kDrop : kSpace);
      continue;
    }
    Mapped mapped;
    for (const char32_t to : text) {
      PLIMSOLL_CHECK(mapped.num_bytes + 4u <= mapped.bytes.size());
      mapped.num_bytes =
          static_cast<uint8_t>(mapped.num_bytes + encode_utf8(to, mapped.bytes.data() + mapped.num_bytes));
    }
    set_entry(c, static_cast<uint16_t>(narrow<uint16_t>(mapped_.size() << kActionBits) | kMap));
    mapped_.push_back(mapped);
  }
  if (!strips_accents_) return;
  for (const char32_t c : unicode.combining_code_points()) {
    if (reorders(c) && action_by_flags(unicode.flags(c)) == kKeep) set_entry(c, kReorder);
  }
  std::u32string parts;
  for (const char32_t c : unicode.mapped_code_points()) {
    parts.clear();
    unicode.decompose(c, &parts);
    if (std::any_of(parts.begin(), parts.end(), reorders)) set_entry(c, kReorder);
  }
}

// Computes the normalized form of a single code point. Code points whose order in the text may have to change are not handled
// here; their table entries have the action kReorder.
void BertNormalizer::map_code_point(char32_t c, std::u32string* out) const {
  const UnicodeTable& unicode = UnicodeTable::get();
  out->clear();
  const Action action = action_by_flags(unicode.flags(c));
  if (action == kDrop) return;
  if (action == kSpace) {
    out->push_back(U' ');
    return;
  }
  std::u32string parts;
  if (strips_accents_) {
    unicode.decompose(c, &parts);
  } else {
    parts.push_back(c);
  }
  if (action == kSpaced) out->push_back(U' ');
  for (const char32_t part : parts) {
    if (strips_accents_ && (unicode.flags(part) & kNonspacingMark)) continue;
    if (spec_.lowercase) {
      unicode.to_lower(part, out);
    } else {
      out->push_back(part);
    }
  }
  if (action == kSpaced) out->push_back(U' ');
}

uint16_t BertNormalizer::add_page(const std::vector<uint16_t>& page, Sharing sharing) {
  const auto number = narrow<uint16_t>(entries_.size() / kPageSize);
  entries_.insert(entries_.end(), page.begin(), page.end());
  is_shared_.push_back(sharing == Sharing::kShared);
  return number;
}

void BertNormalizer::set_entry(char32_t c, uint16_t entry) {
  uint16_t& page = page_of_[c / kPageSize];
  if (is_shared_[page]) {
    const auto from = entries_.begin() + static_cast<std::ptrdiff_t>(size_t{page} * kPageSize);
    const std::vector<uint16_t> copy(from, from + static_cast<std::ptrdiff_t>(kPageSize));
    page = add_page(copy, Sharing::kOwn);
  }
  entries_[size_t{page} * kPageSize + c % kPageSize] = entry;
}

void BertNormalizer::run_steps(SourcedText* text) const {
  if (spec_.clean_text) clean(text);
  if (spec_.handle_chinese_chars) space_cjk(text);
  if (strips_accents_) {
    decompose(text);
    drop_marks(text);
  }
  if (spec_.lowercase) lower(text);
}

// Normalizes a text of which every byte becomes exactly one byte, such as plain ASCII text. Returns false for any other text.
bool BertNormalizer::normalize_ascii(std::string_view text, NormalizedText* out) const {
  out->bytes.resize(text.size());
  out->source.clear();
  char* to = out->bytes.data();
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (has_control_or_high(word)) {
      if ((word & repeat(0x80)) != 0) return false;
      for (size_t j = i; j < i + 8; ++j) {
        const auto c = static_cast<unsigned char>(text[j]);
        if (ascii_dropped_[c]) return false;
        to[j] = static_cast<char>(ascii_[c]);
      }
      continue;
    }
    if (spec_.lowercase) word = lower_ascii(word);
    std::memcpy(to + i, &word, 8);
  }
  for (; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 128 || ascii_dropped_[c]) return false;
    to[i] = static_cast<char>(ascii_[c]);
  }
  return true;
}

int32_t BertNormalizer::normalize(std::string_view text, int32_t first_code_point,
                                  NormalizedText* out) const {
  out->first_code_point = first_code_point;
  if (normalize_ascii(text, out)) return static_cast<int32_t>(text.size());
  // Normalization makes a code point at most 15 times as long, but almost never makes one longer. Therefore the output is first
  // allocated with moderate reserve and enlarged only when necessary.
  size_t capacity = text.size() + text.size() / 2 + 64;
  out->bytes.resize(capacity);
  out->source.resize(capacity);
  size_t used = 0;
  int32_t from = first_code_point;
  const auto put = [&](const char* bytes, size_t num_bytes) {
    std::memcpy(out->bytes.data() + used, bytes, num_bytes);
    std::fill_n(out->source.data() + used, num_bytes, from);
    used += num_bytes;
  };
  const char* p = text.data();
  const char* const end = p + text.size();
  for (; p < end; ++from) {
    if (capacity - used < 16) {
      capacity *= 2;
      out->bytes.resize(capacity);
      out->source.resize(capacity);
    }
    const auto byte = static_cast<unsigned char>(*p);
    if (byte < 128) {
      out->bytes[used] = static_cast<char>(ascii_[byte]);
      out->source[used] = from;
      used += ascii_dropped_[byte] ? 0 : 1;
      ++p;
      continue;
    }
    const DecodedCodePoint c = decode_valid_utf8(p);
    const uint16_t e = entry(c.value);
    switch (e & ((1 << kActionBits) - 1)) {
      case kKeep:
        put(p, c.num_bytes);
        break;
      case kDrop:
        break;
      case kSpace:
        put(" ", 1);
        break;
      case kSpaced:
        put(" ", 1);
        put(p, c.num_bytes);
        put(" ", 1);
        break;
      case kMap: {
        const Mapped& mapped = mapped_[e >> kActionBits];
        put(mapped.bytes.data(), mapped.num_bytes);
        break;
      }
      case kHangul: {
        char bytes[12];
        uint32_t n = 0;
        const char32_t index = c.value - 0xAC00;
        n += encode_utf8(0x1100 + index / 588, bytes);
        n += encode_utf8(0x1161 + index % 588 / 28, bytes + n);
        if (index % 28 != 0) n += encode_utf8(0x11A7 + index % 28, bytes + n);
        put(bytes, n);
        break;
      }
      default:
        return normalize_in_steps(text, first_code_point, out);
    }
    p += c.num_bytes;
  }
  out->bytes.resize(used);
  out->source.resize(used);
  return from - first_code_point;
}

int32_t BertNormalizer::normalize_in_steps(std::string_view text, int32_t first_code_point,
                                           NormalizedText* out) const {
  SourcedText steps;
  int32_t from = first_code_point;
  for (size_t i = 0; i < text.size(); ++from) {
    const DecodedCodePoint c = decode_valid_utf8(text.data() + i);
    steps.push(c.value, from);
    i += c.num_bytes;
  }
  run_steps(&steps);
  out->first_code_point = first_code_point;
  out->bytes.clear();
  out->source.clear();
  for (size_t i = 0; i < steps.code_points.size(); ++i) {
    append_utf8(steps.code_points[i], &out->bytes);
    out->source.resize(out->bytes.size(), steps.source[i]);
  }
  return from - first_code_point;
}

}  // namespace plimsoll::text
