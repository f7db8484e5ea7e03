#include "io/text/graphemes.h"

#include <cstdint>
#include <iterator>

namespace plimsoll::text {
namespace {

#include "io/text/tables/grapheme_tables.inc"

// The classes in the order of the generator, in the lowest four bits.
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

// What the beginning of a cluster implies for its continuation.
struct ClusterState {
  bool one_regional = false;        // an odd number of regional indicators
  bool pictographic = false;        // a pictographic character and extending ones
  bool joins_pictographic = false;  // ... and then a zero-width joiner
  bool conjunct = false;            // a consonant, and linkers and extending characters
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

// Returns true if no cluster ends between two code points (rules GB3 to GB13).
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
  // A cluster of two ASCII characters exists only for a line end.
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
