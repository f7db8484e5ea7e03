#include "io/data/masking.h"

#include "base/philox.h"

namespace plimsoll {
namespace {

constexpr uint32_t kMaskSite = 0xDA7A0200u;
// The epoch of masks that never change, which no training reaches.
constexpr uint32_t kNoEpoch = 0xFFFFFFFFu;

// Returns the smallest number of 32 bits that does not select an event of this probability.
uint64_t threshold(double probability) {
  return static_cast<uint64_t>(probability * 4294967296.0);
}

}  // namespace

std::optional<int32_t> hidden_id(const TokenMasking& masking, MaskedSequence of, int64_t position,
                                 int32_t id) {
  if (masking.is_special(id)) return std::nullopt;
  const bool is_fixed = masking.schedule == MaskSchedule::kNever;
  const RandomSite where{masking.seed, is_fixed ? kNoEpoch : static_cast<uint32_t>(of.epoch), kMaskSite};
  const uint64_t block =
      static_cast<uint64_t>(static_cast<uint32_t>(of.sequence)) << 32 | static_cast<uint32_t>(position);
  const auto [choice, kind, random, unused] = philox_block(where, block);
  if (choice >= threshold(masking.probability)) return std::nullopt;
  if (kind < threshold(0.8)) return masking.mask_id;
  if (kind >= threshold(0.9)) return id;
  return static_cast<int32_t>(static_cast<uint64_t>(random) * static_cast<uint32_t>(masking.num_ids) >> 32);
}

void mask_ids(const TokenMasking& masking, MaskedSequence of, std::span<int32_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = hidden_id(masking, of, static_cast<int64_t>(i), ids[i]).value_or(ids[i]);
}

void mask_labels(const TokenMasking& masking, MaskedSequence of, std::span<int32_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!hidden_id(masking, of, static_cast<int64_t>(i), ids[i])) ids[i] = kNoLabel;
  }
}

}  // namespace plimsoll
