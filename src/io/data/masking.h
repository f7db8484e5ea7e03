// Masks tokens for masked language modelling with the rule of transformers' DataCollatorForLanguageModeling: each token that is not
// special is chosen with a given probability. 80 % of the chosen tokens become the mask token, 10 % a random token, and 10 % keep their
// id. Thread-safe: pure functions.
//
// Every choice is a function of (seed, epoch, sequence, position in the sequence), so it does not depend on the batch or the threads, and
// a resumed run masks the same tokens. The random numbers are 32-bit outputs of Philox. Its key is `seed`. Its counter consists of
// `epoch`, of a constant per purpose, called the site, and of a block number. One call gives four outputs, called lanes:
// - The site kMaskSite with the block `sequence * 2^32 + position / 4` decides which tokens are chosen: the token is chosen
//   if lane `position % 4`, divided by 2^32, is less than the probability.
// - The site kMaskSite + 1 with the block `sequence * 2^32 + position` decides what replaces a chosen token: lane 0 selects
//   among the mask token, a random token and the token itself, and lane 1 selects the random token.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/philox.h"
#include "plimsoll/data.h"  // declares kNoLabel

namespace plimsoll {

// Specifies if a sequence is masked differently in each epoch, or always in the same way.
enum class MaskSchedule : uint8_t { kEachEpoch, kNever };

struct TokenMasking {
  double probability = 0.15;  // probability that a token is chosen; above 0 and at most 1
  int32_t mask_id = 0;
  int32_t num_ids = 0;  // random replacement tokens are drawn from [0, num_ids)
  uint64_t seed = 0;
  MaskSchedule schedule = MaskSchedule::kEachEpoch;
  // The ids that are never masked: those that the tokenizer adds to a text, the padding token and the mask token. An entry is -1 if the
  // tokenizer has no such token. The token for unknown words may be masked.
  std::array<int32_t, 6> special_ids = {-1, -1, -1, -1, -1, -1};

  bool is_special(int32_t id) const { return std::ranges::find(special_ids, id) != special_ids.end(); }
};

// Identifies a sequence of a data set in an epoch of training.
struct MaskedSequence {
  int64_t epoch = 0;
  int32_t sequence = 0;
};

inline constexpr uint32_t kMaskSite = 0xDA7A0200u;
// The epoch number for random numbers if each sequence is masked in the same way in all epochs (MaskSchedule::kNever). No real epoch has
// this number.
inline constexpr uint32_t kNoEpoch = 0xFFFFFFFFu;

// Returns the threshold t = probability x 2^32: a random 32-bit number is below t with this probability.
constexpr uint64_t mask_threshold(double probability) {
  return static_cast<uint64_t>(probability * 4294967296.0);
}

// Returns the four random numbers that Philox computes for a block of this sequence. At the site kMaskSite, each of the four numbers
// belongs to one of four adjacent positions. At the site kMaskSite + 1, all four belong to the position `block`.
inline std::array<uint32_t, 4> mask_numbers(const TokenMasking& masking, MaskedSequence of, uint32_t site,
                                            size_t block) {
  const bool is_fixed = masking.schedule == MaskSchedule::kNever;
  return philox_block({masking.seed, is_fixed ? kNoEpoch : static_cast<uint32_t>(of.epoch), site},
                      uint64_t{static_cast<uint32_t>(of.sequence)} << 32 | static_cast<uint32_t>(block));
}

// Calls visit(position) for every masked token. id_at(position) returns the id of a token.
template <typename IdAt, typename Visit>
void for_each_hidden(const TokenMasking& masking, MaskedSequence of, size_t length, const IdAt& id_at,
                     const Visit& visit) {
  const uint64_t threshold = mask_threshold(masking.probability);
  for (size_t first = 0; first < length; first += 4) {
    const std::array<uint32_t, 4> choices = mask_numbers(masking, of, kMaskSite, first / 4);
    for (size_t i = first; i < std::min(first + 4, length); ++i) {
      if (choices[i - first] < threshold && !masking.is_special(id_at(i))) visit(i);
    }
  }
}

// Replaces the ids of the masked tokens by those that the model reads.
void mask_ids(const TokenMasking& masking, MaskedSequence of, std::span<int32_t> ids);
// Converts ids to labels: replaces the id of every token that is not masked by kNoLabel.
void mask_labels(const TokenMasking& masking, MaskedSequence of, std::span<int32_t> ids);
}  // namespace plimsoll
