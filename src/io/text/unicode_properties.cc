#include "io/text/unicode_properties.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"

namespace plimsoll::text {
namespace {

#include "io/text/tables/property_tables.inc"

// The order is that of the generator; 0 is Cn, an unassigned code point.
constexpr std::array<std::string_view, 29> kCategories = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

// Unicode 15.0, section 3.12, "Arithmetic Primary Composite Mapping". Returns 0 if the pair has no composite.
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
  for (size_t i = 0; i < std::size(kCompatibility); i += 2 + kCompatibility[i + 1]) {
    std::u32string& parts = compatible_[kCompatibility[i]];
    for (size_t j = 0; j < kCompatibility[i + 1]; ++j) parts.push_back(kCompatibility[i + 2 + j]);
  }
  for (size_t i = 0; i < std::size(kCompositions); i += 3) {
    composites_[pair_key(kCompositions[i], kCompositions[i + 1])] = kCompositions[i + 2];
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

}  // namespace plimsoll::text
