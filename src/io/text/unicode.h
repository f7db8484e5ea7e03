// The Unicode data of Hugging Face's tokenizers: flags, lower case, canonical decomposition and combining
// order of every code point, from tables that tables/make_unicode_tables.py extracted from that library. Also
// decodes and encodes UTF-8.
//
// It is not a general Unicode library: Hugging Face's tokenizers mix several versions of Unicode, and so do
// these tables. Thread-safe: the table is built once, on first use (about 1 ms), and is constant afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll::text {

// The bits of a code point's flags. make_unicode_tables.py writes the same numbers.
enum CodePointFlags : uint8_t {
  kRemoved = 1,  // dropped by the normalization step clean_text
  // separates words and is dropped; clean_text turns it into a space unless it has the flag kRemoved
  kWhitespace = 2,
  kPunctuation = 4,      // becomes a word by itself in BertPreTokenizer
  kCjk = 8,              // the normalization step handle_chinese_chars puts a space on each side
  kNonspacingMark = 16,  // dropped by the normalization step strip_accents
  kLowercases = 32,      // its lower case is a different character
  kDecomposes = 64,      // changed by normalization form NFD
  kWordCharacter = 128,  // matches \w in the regular expressions of Hugging Face's tokenizers
};

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr char32_t kNumCodePoints = 0x110000;
// The table of flags has two levels. Its pages contain the flags of this number of code points.
inline constexpr size_t kPageSize = 256;

class UnicodeTable {
 public:
  // Returns the table, which exists once per process.
  static const UnicodeTable& get();

  // Returns the flags of a code point, CodePointFlags joined by |. Requires: code_point < kNumCodePoints.
  uint8_t flags(char32_t code_point) const {
    return flags_[size_t{page_of_[code_point / kPageSize]} * kPageSize + code_point % kPageSize];
  }
  // Returns the number of the page that contains the flags of a code point; it is smaller than num_pages(). A page contains the flags of
  // kPageSize consecutive code points. If all flags of several ranges of code points have the same value, these ranges share a page.
  size_t page_number(char32_t code_point) const { return page_of_[code_point / kPageSize]; }
  size_t num_pages() const { return flags_.size() / kPageSize; }
  // Appends the full canonical decomposition of a code point (the code point itself if it has none).
  void decompose(char32_t code_point, std::u32string* out) const;
  // Appends the lower case of a code point (the code point itself if it has none).
  void to_lower(char32_t code_point, std::u32string* out) const;
  // Returns the rank by which the canonical order sorts a combining character; 0 for a starter, which is not moved.
  int combining_rank(char32_t code_point) const;

  // Returns every code point with a decomposition (except Hangul syllables) or a lower case.
  std::vector<char32_t> mapped_code_points() const;
  // Returns every code point whose combining rank is not 0.
  std::vector<char32_t> combining_code_points() const;
  // Returns the name and version of the software from which the tables were made. The content hash of a tokenizer depends on it.
  static std::string_view source();

 private:
  UnicodeTable();
  std::vector<uint16_t> page_of_;
  std::vector<uint8_t> flags_;
  std::unordered_map<char32_t, std::u32string_view> lower_;
  std::unordered_map<char32_t, std::u32string_view> decompositions_;
  std::u32string
      mapped_text_;  // the lower cases and decompositions to which the values of lower_ and decompositions_ refer
};

constexpr bool is_hangul_syllable(char32_t c) {
  return c >= 0xAC00 && c < 0xAC00 + 11172;
}

struct DecodedCodePoint {
  char32_t value = 0;
  uint32_t num_bytes = 0;
};

// Decodes the code point at the start. Requires: text is not empty. Invalid UTF-8 gives U+FFFD for the
// maximal part of a valid sequence (Unicode 15.0, section 3.9, "U+FFFD Substitution of Maximal Subparts"), as
// in Python's decoder.
DecodedCodePoint decode_utf8(std::string_view text);
// Decodes as decode_utf8, but faster. Requires: text is valid UTF-8 and not empty.
inline DecodedCodePoint decode_valid_utf8(const char* p) {
  const auto byte = [p](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(p[i])); };
  const uint32_t b0 = byte(0);
  if (b0 < 0x80) return {b0, 1};
  if (b0 < 0xE0) return {(b0 & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (b0 < 0xF0) return {(b0 & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(b0 & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}
// Writes 1 to 4 bytes and returns their number. Requires: a Unicode scalar value.
uint32_t encode_utf8(char32_t code_point, char* out);
void append_utf8(char32_t code_point, std::string* out);

bool is_valid_utf8(std::string_view text);
bool is_ascii(std::string_view text);
// Replaces every maximal invalid part by U+FFFD.
void replace_invalid_utf8(std::string_view text, std::string* out);
// Returns the number of code points in valid UTF-8.
int64_t count_code_points(std::string_view text);

}  // namespace plimsoll::text
