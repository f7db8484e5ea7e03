#include "io/text/unicode.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "base/check.h"

namespace plimsoll::text {
namespace {

#include "io/text/tables/unicode_tables.inc"

// Converts a run-length table of flags to pages. A page contains the flags of a fixed number of consecutive code points. If all flags of
// several pages have the same value, only one of these pages is stored.
struct PageBuilder {
  std::vector<uint16_t> page_of;
  std::vector<uint8_t> flags;
  std::unordered_map<uint8_t, uint16_t> uniform_pages;

  void add(const uint8_t* page) {
    const bool uniform = std::all_of(page, page + kPageSize, [&](uint8_t f) { return f == page[0]; });
    if (uniform) {
      const auto found = uniform_pages.find(page[0]);
      if (found != uniform_pages.end()) {
        page_of.push_back(found->second);
        return;
      }
    }
    const auto number = narrow<uint16_t>(flags.size() / kPageSize);
    if (uniform) uniform_pages.emplace(page[0], number);
    page_of.push_back(number);
    flags.insert(flags.end(), page, page + kPageSize);
  }
};

// Reads a table of mappings in the format of make_unicode_tables.py: for each mapping the code point, the length of its value,
// and the value.
void read_mappings(std::span<const uint32_t> table, std::u32string* mapped_text,
                   std::vector<std::pair<char32_t, std::pair<size_t, size_t>>>* places) {
  for (size_t i = 0; i < table.size(); i += 2 + table[i + 1]) {
    places->push_back({table[i], {mapped_text->size(), table[i + 1]}});
    for (size_t j = 0; j < table[i + 1]; ++j) mapped_text->push_back(table[i + 2 + j]);
  }
}

}  // namespace

const UnicodeTable& UnicodeTable::get() {
  static const UnicodeTable table;
  return table;
}

std::string_view UnicodeTable::source() {
  return kUnicodeTablesSource;
}

UnicodeTable::UnicodeTable() {
  PageBuilder pages;
  std::vector<uint8_t> page(kPageSize);
  size_t run = 0;
  for (char32_t first = 0; first < kNumCodePoints; first += kPageSize) {
    for (size_t i = 0; i < kPageSize;) {
      while (run + 2 < std::size(kFlagRuns) && kFlagRuns[run + 2] <= first + i) run += 2;
      const size_t run_end = run + 2 < std::size(kFlagRuns) ? kFlagRuns[run + 2] : kNumCodePoints;
      const size_t end = std::min(run_end - first, kPageSize);
      std::fill(page.begin() + static_cast<std::ptrdiff_t>(i),
                page.begin() + static_cast<std::ptrdiff_t>(end), narrow<uint8_t>(kFlagRuns[run + 1]));
      i = end;
    }
    pages.add(page.data());
  }
  page_of_ = std::move(pages.page_of);
  flags_ = std::move(pages.flags);

  std::vector<std::pair<char32_t, std::pair<size_t, size_t>>> lower, decompositions;
  read_mappings(kLowercase, &mapped_text_, &lower);
  read_mappings(kDecompositions, &mapped_text_, &decompositions);
  const std::u32string_view all(mapped_text_);
  for (const auto& [code_point, place] : lower) lower_[code_point] = all.substr(place.first, place.second);
  for (const auto& [code_point, place] : decompositions) {
    decompositions_[code_point] = all.substr(place.first, place.second);
  }
}

// Decomposes as described in Unicode 15.0, section 3.12, "Arithmetic Decomposition Mapping".
static void decompose_hangul(char32_t syllable, std::u32string* out) {
  const char32_t index = syllable - 0xAC00;
  out->push_back(0x1100 + index / 588);
  out->push_back(0x1161 + index % 588 / 28);
  if (index % 28 != 0) out->push_back(0x11A7 + index % 28);
}

void UnicodeTable::decompose(char32_t code_point, std::u32string* out) const {
  if (is_hangul_syllable(code_point)) return decompose_hangul(code_point, out);
  if (flags(code_point) & kDecomposes) {
    out->append(decompositions_.at(code_point));
  } else {
    out->push_back(code_point);
  }
}

void UnicodeTable::to_lower(char32_t code_point, std::u32string* out) const {
  if (flags(code_point) & kLowercases) {
    out->append(lower_.at(code_point));
  } else {
    out->push_back(code_point);
  }
}

int UnicodeTable::combining_rank(char32_t code_point) const {
  size_t low = 0, high = std::size(kCombiningRuns) / 2;
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (kCombiningRuns[2 * middle] <= code_point ? low : high) = middle;
  }
  return static_cast<int>(kCombiningRuns[2 * low + 1]);
}

std::vector<char32_t> UnicodeTable::combining_code_points() const {
  std::vector<char32_t> result;
  for (size_t i = 0; i + 2 < std::size(kCombiningRuns); i += 2) {
    if (kCombiningRuns[i + 1] == 0) continue;
    for (char32_t c = kCombiningRuns[i]; c < kCombiningRuns[i + 2]; ++c) result.push_back(c);
  }
  return result;
}

std::vector<char32_t> UnicodeTable::mapped_code_points() const {
  std::vector<char32_t> result;
  for (const auto& entry : lower_) result.push_back(entry.first);
  for (const auto& entry : decompositions_) result.push_back(entry.first);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

DecodedCodePoint decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const uint32_t b0 = byte(0);
  if (b0 < 0x80) return {b0, 1};
  // The range of the second byte depends on the first one, which excludes overlong forms, surrogates and values above U+10FFFF.
  uint32_t length = 0, low = 0x80, high = 0xBF;
  if (b0 >= 0xC2 && b0 <= 0xDF) {
    length = 2;
  } else if (b0 >= 0xE0 && b0 <= 0xEF) {
    length = 3;
    if (b0 == 0xE0) low = 0xA0;
    if (b0 == 0xED) high = 0x9F;
  } else if (b0 >= 0xF0 && b0 <= 0xF4) {
    length = 4;
    if (b0 == 0xF0) low = 0x90;
    if (b0 == 0xF4) high = 0x8F;
  } else {
    return {kReplacementCharacter, 1};
  }
  uint32_t value = b0 & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    const uint32_t b = byte(i);
    if (b < (i == 1 ? low : 0x80u) || b > (i == 1 ? high : 0xBFu)) return {kReplacementCharacter, i};
    value = value << 6 | (b & 0x3F);
  }
  return {value, length};
}

uint32_t encode_utf8(char32_t c, char* out) {
  const auto put = [&](int i, char32_t byte) { out[i] = static_cast<char>(byte); };
  if (c < 0x80) {
    put(0, c);
    return 1;
  }
  if (c < 0x800) {
    put(0, 0xC0 | c >> 6);
    put(1, 0x80 | (c & 0x3F));
    return 2;
  }
  if (c < 0x10000) {
    put(0, 0xE0 | c >> 12);
    put(1, 0x80 | (c >> 6 & 0x3F));
    put(2, 0x80 | (c & 0x3F));
    return 3;
  }
  put(0, 0xF0 | c >> 18);
  put(1, 0x80 | (c >> 12 & 0x3F));
  put(2, 0x80 | (c >> 6 & 0x3F));
  put(3, 0x80 | (c & 0x3F));
  return 4;
}

void append_utf8(char32_t code_point, std::string* out) {
  char bytes[4];
  out->append(bytes, encode_utf8(code_point, bytes));
}

bool is_ascii(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  size_t i = 0;
  uint64_t any = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    any |= word;
  }
  for (; i < text.size(); ++i) any |= static_cast<unsigned char>(text[i]);
  return (any & kHighBits) == 0;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    // Skips eight bytes at a time while they are ASCII, because most text is ASCII.
    uint64_t word;
    if (text.size() >= 8 && (std::memcpy(&word, text.data(), 8), (word & 0x8080808080808080u) == 0)) {
      text.remove_prefix(8);
      continue;
    }
    const DecodedCodePoint c = decode_utf8(text);
    // The result U+FFFD means either that the bytes are invalid or that the text contains this character. The bytes of this character are
    // EF BF BD. Invalid parts of three bytes always begin with F0 to F4, so three bytes that begin with EF are this character.
    if (c.value == kReplacementCharacter && !(c.num_bytes == 3 && text[0] == '\xEF')) return false;
    text.remove_prefix(c.num_bytes);
  }
  return true;
}

void replace_invalid_utf8(std::string_view text, std::string* out) {
  while (!text.empty()) {
    const DecodedCodePoint c = decode_utf8(text);
    append_utf8(c.value, out);
    text.remove_prefix(c.num_bytes);
  }
}

int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace plimsoll::text
