// BertNormalizer: cleans, spaces Chinese characters, strips accents and lower-cases a text, and remembers for
// every byte of the result which code point of the text it came from.
//
// Two ways that agree: `normalize` makes one pass with a table of what becomes of each code point;
// `normalize_in_steps` does what the reference does, step after step, and serves where canonical reordering
// matters (a combining character that is no nonspacing mark) and as the reference of the tests. Immutable
// once built; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/tokenizer_spec.h"
#include "io/text/unicode.h"

namespace plimsoll::text {

// A normalised text. `source` has an entry per byte: the code point of the original text, counted from
// `first_code_point` of the call; it is empty where byte i came from code point first_code_point + i (ASCII,
// nothing dropped).
struct NormalizedText {
  std::string bytes;
  std::vector<int32_t> source;
  int32_t first_code_point = 0;
};

// Code points and where each came from: the form in which the steps work.
struct SourcedText {
  std::u32string code_points;
  std::vector<int32_t> source;

  void clear() {
    code_points.clear();
    source.clear();
  }
  void push(char32_t c, int32_t from) {
    code_points.push_back(c);
    source.push_back(from);
  }
};

class BertNormalizer {
 public:
  explicit BertNormalizer(const NormalizerSpec& spec);

  // Normalises `text`, the part of a longer text that starts at code point first_code_point. Requires: valid
  // UTF-8. Returns the number of code points in `text`. Overwrites `out`, reusing its memory.
  int32_t normalize(std::string_view text, int32_t first_code_point, NormalizedText* out) const;

  // The same result, slowly.
  int32_t normalize_in_steps(std::string_view text, int32_t first_code_point, NormalizedText* out) const;

 private:
  // What becomes of a code point. The table holds the action in the low bits and the place in mapped_ above
  // them.
  enum Action : uint16_t { kKeep, kDrop, kSpace, kSpaced, kMap, kHangul, kReorder };
  static constexpr int kActionBits = 3;
  struct Mapped {
    std::array<char, 15> bytes{};
    uint8_t num_bytes = 0;
  };

  uint16_t entry(char32_t c) const {
    return entries_[size_t{page_of_[c / kPageSize]} * kPageSize + c % kPageSize];
  }
  bool normalize_ascii(std::string_view text, NormalizedText* out) const;
  void fill_entries();
  Action action_by_flags(uint8_t flags) const;
  void map_code_point(char32_t c, std::u32string* out) const;
  enum class Sharing : uint8_t { kShared, kOwn };
  uint16_t add_page(const std::vector<uint16_t>& page, Sharing sharing);
  void set_entry(char32_t c, uint16_t entry);
  void run_steps(SourcedText* text) const;

  NormalizerSpec spec_;
  bool strips_accents_;
  std::array<uint8_t, 128> ascii_{};  // the byte that an ASCII byte becomes
  std::array<bool, 128> ascii_dropped_{};
  std::vector<uint16_t> page_of_;
  std::vector<uint16_t> entries_;
  std::vector<bool> is_shared_;  // per page: several ranges of code points use it
  std::vector<Mapped> mapped_;
};

}  // namespace plimsoll::text
