#include "io/text/unicode_properties.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"

namespace plimsoll::text {
namespace {

#include "io/text/tables/property_tables.inc"

// The general categories, in the order of the numbers that make_property_tables.py writes. Number 0, Cn, is an unassigned code
// point.
constexpr std::array<std::string_view, 29> kCategories = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

// Composes Hangul syllables as described in Unicode 15.0, section 3.12, "Arithmetic Primary Composite Mapping". Returns 0 if the
// pair of code points has no composite.
char32_t compose_hangul(char32_t first, char32_t second) {
  if (first >= 0x1100 && first < 0x1100 + 19 && second >= 0x1161 && second < 0x1161 + 21) {
    return 0xAC00 + ((first - 0x1100) * 21 + (second - 0x1161)) * 28;
  }
  if (is_hangul_syllable(first) && (first - 0xAC00) % 28 == 0 && second > 0x11A7 && second < 0x11A7 + 28) {
    return first + (second - 0x11A7);
  }
  return 0;
}

uint64_t pair_key(char32_t first, char32_t second) {
  return uint64_t{first} << 32 | second;
}

}  // namespace

std::string_view property_tables_source() {
  return kPropertyTablesSource;
}

const UnicodeProperties& UnicodeProperties::get() {
  static const UnicodeProperties table;
  return table;
}

UnicodeProperties::UnicodeProperties() {
  std::vector<uint16_t> all(kNumCodePoints);
  for (size_t i = 0; i < std::size(kPropertyRuns); i += 2) {
    const size_t end = i + 2 < std::size(kPropertyRuns) ? kPropertyRuns[i + 2] : kNumCodePoints;
    std::fill(all.begin() + static_cast<std::ptrdiff_t>(kPropertyRuns[i]),
              all.begin() + static_cast<std::ptrdiff_t>(end), narrow<uint16_t>(kPropertyRuns[i + 1]));
  }
  for (size_t i = 0; i < std::size(kCompositions); i += 3) {
    composites_[pair_key(kCompositions[i], kCompositions[i + 1])] = kCompositions[i + 2];
  }
  for (size_t i = 0; i < std::size(kCompatibility); i += 2 + kCompatibility[i + 1]) {
    std::u32string& parts = compatible_[kCompatibility[i]];
    for (size_t j = 0; j < kCompatibility[i + 1]; ++j) parts.push_back(kCompatibility[i + 2 + j]);
  }
  mark_composition(&all);
  std::unordered_map<uint16_t, uint16_t> uniform_pages;
  for (size_t first = 0; first < kNumCodePoints; first += kPageSize) {
    const auto page = all.begin() + static_cast<std::ptrdiff_t>(first);
    const auto page_end = page + static_cast<std::ptrdiff_t>(kPageSize);
    const bool uniform = std::all_of(page, page_end, [&](uint16_t f) { return f == *page; });
    const auto number = narrow<uint16_t>(flags_.size() / kPageSize);
    if (uniform) {
      const auto [known, is_new] = uniform_pages.emplace(*page, number);
      page_of_.push_back(known->second);
      if (!is_new) continue;
    } else {
      page_of_.push_back(number);
    }
    flags_.insert(flags_.end(), page, page_end);
  }
}

// Sets the flag kMayCompose of all code points that normalization form NFC may change: those that combine with the code point
// before them, and those that are not the composite of their own decomposition.
void UnicodeProperties::mark_composition(std::vector<uint16_t>* flags) const {
  const UnicodeTable& unicode = UnicodeTable::get();
  for (const char32_t c : unicode.combining_code_points()) (*flags)[c] |= kMayCompose;
  for (char32_t vowel = 0x1161; vowel < 0x1161 + 21; ++vowel) (*flags)[vowel] |= kMayCompose;
  for (char32_t tail = 0x11A8; tail < 0x11A8 + 27; ++tail) (*flags)[tail] |= kMayCompose;
  for (size_t i = 0; i < std::size(kCompositions); i += 3) (*flags)[kCompositions[i + 1]] |= kMayCompose;
  std::u32string parts;
  for (const char32_t c : unicode.mapped_code_points()) {
    parts.clear();
    unicode.decompose(c, &parts);
    char32_t composite = parts[0];
    for (size_t i = 1; i < parts.size() && composite != 0; ++i) composite = compose(composite, parts[i]);
    if (composite != c || ((*flags)[parts[0]] & kMayCompose) != 0) (*flags)[c] |= kMayCompose;
  }
  for (const auto& entry : compatible_) (*flags)[entry.first] |= kMayComposeCompatible;
  for (uint16_t& f : *flags) {
    if ((f & kMayCompose) != 0) f |= kMayComposeCompatible;
  }
}

void UnicodeProperties::decompose_compatible(char32_t code_point, std::u32string* out) const {
  const auto found = compatible_.find(code_point);
  if (found == compatible_.end()) return UnicodeTable::get().decompose(code_point, out);
  out->append(found->second);
}

char32_t UnicodeProperties::compose(char32_t first, char32_t second) const {
  if (const char32_t hangul = compose_hangul(first, second); hangul != 0) return hangul;
  const auto found = composites_.find(pair_key(first, second));
  return found == composites_.end() ? 0 : found->second;
}

uint32_t UnicodeProperties::categories(std::string_view name) {
  uint32_t mask = 0;
  for (size_t i = 0; i < kCategories.size(); ++i) {
    if (kCategories[i] == name || (name.size() == 1 && kCategories[i][0] == name[0]))
      mask |= uint32_t{1} << i;
  }
  return mask;
}

namespace {

#include "io/text/tables/grapheme_tables.inc"

// The classes of code points by which Unicode divides a text into grapheme clusters (user-perceived characters). The numbers are those that
// make_grapheme_tables.py writes into the lowest four bits of a table entry.
enum GraphemeClass : uint32_t {
  kOther,
  kCr,
  kLf,
  kControl,
  kExtend,
  kZwj,
  kRegional,
  kPrepend,
  kSpacingMark,
  kHangulL,
  kHangulV,
  kHangulT,
  kHangulLv,
  kHangulLvt,
};
constexpr uint32_t kClassMask = 15;
constexpr uint32_t kPictographic = 16, kConsonant = 32, kLinker = 64, kConjunctExtend = 128;

uint32_t grapheme_flags(char32_t c) {
  size_t low = 0, high = std::size(kGraphemeRuns) / 2;
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (kGraphemeRuns[2 * middle] <= c ? low : high) = middle;
  }
  return kGraphemeRuns[2 * low + 1];
}

// The contents of a grapheme cluster up to some position. They decide, with the next code point, whether the cluster continues there.
struct ClusterState {
  bool one_regional = false;  // contains an odd number of regional indicators
  // ends with a pictographic character, which may be followed by extending characters
  bool pictographic = false;
  // ends with a pictographic character, possibly extending characters, and a zero-width joiner
  bool joins_pictographic = false;
  // consists of a consonant, which may be followed by linkers and extending characters
  bool conjunct = false;
  bool has_linker = false;

  void add(uint32_t flags) {
    const uint32_t kind = flags & kClassMask;
    one_regional = kind == kRegional && !one_regional;
    joins_pictographic = pictographic && kind == kZwj;
    pictographic = (flags & kPictographic) != 0 || (pictographic && kind == kExtend);
    if ((flags & kConsonant) != 0) {
      conjunct = true;
      has_linker = false;
    } else if ((flags & kLinker) != 0) {
      has_linker = conjunct;
    } else if ((flags & kConjunctExtend) == 0) {
      conjunct = has_linker = false;
    }
  }
};

// Returns true if a grapheme cluster continues between two code points, by the rules GB3 to GB13 of Unicode Standard Annex 29.
bool joins(uint32_t before, uint32_t after, const ClusterState& state) {
  const uint32_t a = before & kClassMask, b = after & kClassMask;
  if (a == kCr && b == kLf) return true;
  if (a == kCr || a == kLf || a == kControl || b == kCr || b == kLf || b == kControl) return false;
  if (a == kHangulL && (b == kHangulL || b == kHangulV || b == kHangulLv || b == kHangulLvt)) return true;
  if ((a == kHangulLv || a == kHangulV) && (b == kHangulV || b == kHangulT)) return true;
  if ((a == kHangulLvt || a == kHangulT) && b == kHangulT) return true;
  if (b == kExtend || b == kZwj || b == kSpacingMark || a == kPrepend) return true;
  if (state.conjunct && state.has_linker && (after & kConsonant) != 0) return true;
  if (state.joins_pictographic && (after & kPictographic) != 0) return true;
  return state.one_regional && b == kRegional;
}

}  // namespace

std::string_view grapheme_tables_source() {
  return kGraphemeTablesSource;
}

size_t grapheme_end(std::u32string_view text, size_t begin) {
  // Two ASCII characters need no look-up in the tables: only CR LF form a cluster.
  if (begin + 1 >= text.size()) return begin + 1;
  if (text[begin] < 128 && text[begin + 1] < 128 && text[begin] != U'\r') return begin + 1;
  ClusterState state;
  uint32_t before = grapheme_flags(text[begin]);
  state.add(before);
  size_t end = begin + 1;
  for (; end < text.size(); ++end) {
    const uint32_t after = grapheme_flags(text[end]);
    if (!joins(before, after, state)) break;
    state.add(after);
    before = after;
  }
  return end;
}

}  // namespace plimsoll::text
