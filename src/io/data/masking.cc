#include "io/data/masking.h"

#include <algorithm>

namespace plimsoll {

void mask_ids(const TokenMasking& masking, MaskedSequence of, std::span<int32_t> ids) {
  const auto id_at = [&](size_t i) { return ids[i]; };
  for_each_hidden(masking, of, ids.size(), id_at, [&](size_t i) {
    const std::array<uint32_t, 4> numbers = mask_numbers(masking, of, kMaskSite + 1, i);
    if (numbers[0] < mask_threshold(0.8)) {
      ids[i] = masking.mask_id;
    } else if (numbers[0] < mask_threshold(0.9)) {
      ids[i] = static_cast<int32_t>(uint64_t{numbers[1]} * static_cast<uint32_t>(masking.num_ids) >> 32);
    }
  });
}

void mask_labels(const TokenMasking& masking, MaskedSequence of, std::span<int32_t> ids) {
  size_t next = 0;
  const auto id_at = [&](size_t i) { return ids[i]; };
  for_each_hidden(masking, of, ids.size(), id_at, [&](size_t i) {
    std::fill(ids.begin() + static_cast<std::ptrdiff_t>(next), ids.begin() + static_cast<std::ptrdiff_t>(i),
              kNoLabel);
    next = i + 1;
  });
  std::fill(ids.begin() + static_cast<std::ptrdiff_t>(next), ids.end(), kNoLabel);
}

}  // namespace plimsoll
