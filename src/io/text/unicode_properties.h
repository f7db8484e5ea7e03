// Unicode properties for the steps of the general pipeline: general categories, marks, compatibility decompositions and
// compositions. The tables come from tables/make_property_tables.py, which determined them by calling Hugging Face's tokenizers.
//
// unicode.h contains the properties that BERT's normalizer needs. Thread-safe: the table is built once, on first use, and is
// constant afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/text/unicode.h"

namespace plimsoll::text {

// The bits of UnicodeProperties::flags(). The lowest five contain the general category.
enum PropertyFlags : uint16_t {
  kCategoryMask = 31,
  kNumeric = 32,        // the pre-tokenizer Digits splits a text at this code point (Rust's char::is_numeric)
  kCombiningMark = 64,  // the normalizer StripAccents drops this code point
  kRegexWord = 128,     // matches \w in regular expressions
  kRegexSpace = 256,    // matches \s in regular expressions
  kMayCompose = 512,    // normalization form NFC may change it, or combine it with the code point before it
  // normalization form NFKC may change it, or combine it with the code point before it
  kMayComposeCompatible = 1024,
};

class UnicodeProperties {
 public:
  static const UnicodeProperties& get();

  // Returns the flags and the general category of a code point. Requires: code_point < kNumCodePoints.
  uint16_t flags(char32_t code_point) const {
    return flags_[size_t{page_of_[code_point / kPageSize]} * kPageSize + code_point % kPageSize];
  }
  // Appends the full compatibility decomposition of a code point.
  void decompose_compatible(char32_t code_point, std::u32string* out) const;
  // Returns the primary composite of two code points, or 0 if there is none.
  char32_t compose(char32_t first, char32_t second) const;
  // Returns the set of categories of a name such as "L" or "Lu" as a mask over category numbers, or 0 if no
  // category has this name.
  static uint32_t categories(std::string_view name);

 private:
  UnicodeProperties();
  void mark_composition(std::vector<uint16_t>* flags) const;
  std::vector<uint16_t> page_of_;
  std::vector<uint16_t> flags_;
  std::unordered_map<char32_t, std::u32string> compatible_;
  std::unordered_map<uint64_t, char32_t> composites_;
};

// Returns the name and version of the software from which these tables were made.
std::string_view property_tables_source();

// Returns the end of the grapheme cluster that starts at `begin`: what people see as one character (Unicode Standard
// Annex 29, extended clusters), with the versions of Unicode that Hugging Face's tokenizers have. Requires: begin <
// text.size().
size_t grapheme_end(std::u32string_view text, size_t begin);

// Returns the name and version of the software from which the table of grapheme clusters was made.
std::string_view grapheme_tables_source();

}  // namespace plimsoll::text
