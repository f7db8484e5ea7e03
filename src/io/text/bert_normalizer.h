// BertNormalizer: cleans a text, puts spaces around Chinese characters, strips accents and lower-cases, and
// records for every byte of the result the code point of the text from which it came.
//
// There are two implementations with equal results. `normalize` makes one pass with a table that maps each
// code point. `normalize_in_steps` does the same steps as Hugging Face's tokenizers one after the other; it
// handles texts that need canonical reordering (a combining character that is not a nonspacing mark) and is
// the reference in tests. Immutable after construction; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/tokenizer_spec.h"
#include "io/text/unicode.h"

namespace plimsoll::text {

// A normalized text. `source` contains for each byte the index, in the original text, of the code point from which the byte came;
// `first_code_point` is the index of the first code point of the input. If each byte i came from code point first_code_point + i,
// as in ASCII text without dropped characters, `source` is empty.
struct NormalizedText {
  std::string bytes;
  std::vector<int32_t> source;
  int32_t first_code_point = 0;
};

// Code points, each with the index of the code point in the original text from which it came. The separate normalization steps
// work on this form.
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

  // Normalizes `text`, which is a part of a longer text and begins there at the code point with index first_code_point. Requires:
  // valid UTF-8. Returns the number of code points in `text`. Overwrites `out` and reuses its memory.
  int32_t normalize(std::string_view text, int32_t first_code_point, NormalizedText* out) const;

  // Computes the same result as normalize(), but with a separate pass per normalization step. It is slower and serves as the
  // reference.
  int32_t normalize_in_steps(std::string_view text, int32_t first_code_point, NormalizedText* out) const;

 private:
  // The action of normalization for a code point. A table entry is a 16-bit number: its lowest kActionBits bits contain the
  // action, and the other bits an index into mapped_, the list of replacement texts.
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
  std::array<uint8_t, 128> ascii_{};  // the output byte for each ASCII byte
  std::array<bool, 128> ascii_dropped_{};
  std::vector<uint16_t> page_of_;
  std::vector<uint16_t> entries_;
  std::vector<bool> is_shared_;  // per page of entries_: true if several ranges of code points use this page
  std::vector<Mapped> mapped_;
};

}  // namespace plimsoll::text
