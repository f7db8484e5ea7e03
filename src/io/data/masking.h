// The tokens that a masked language model learns to predict, as transformers' DataCollatorForLanguageModeling chooses them:
// each token that is not special is chosen with a given probability. 80 % of the chosen tokens become the mask token, 10 % a
// random token, and 10 % keep their id. Thread-safe: pure functions.
//
// Every choice is a function of (seed, epoch, sequence, position in the sequence), so it does not depend on the batch, the
// threads, or a resumed run. The random numbers are 32-bit outputs of Philox. Its key is `seed`; its counter consists of the
// step, which is `epoch`, a site, which is a constant per purpose, and a block. One call gives four outputs, called lanes:
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
#include "plimsoll/data.h"  // for kNoLabel

namespace plimsoll {

// States if a sequence gets another mask in each epoch, or keeps one mask forever.
enum class MaskSchedule : uint8_t { kEachEpoch, kNever };

struct TokenMasking {
  double probability = 0.15;  // in (0, 1]
  int32_t mask_id = 0;
  int32_t num_ids = 0;  // random tokens have ids in [0, num_ids)
  uint64_t seed = 0;
  MaskSchedule schedule = MaskSchedule::kEachEpoch;
  // The ids that are never hidden: those that the tokenizer adds to a text, the padding token and the mask token; -1 if the
  // tokenizer lacks one. An unknown word may be hidden.
  std::array<int32_t, 6> special_ids = {-1, -1, -1, -1, -1, -1};

  bool is_special(int32_t id) const { return std::ranges::find(special_ids, id) != special_ids.end(); }
};

// Identifies a sequence of a data set in an epoch of training.
struct MaskedSequence {
  int64_t epoch = 0;
  int32_t sequence = 0;
};

inline constexpr uint32_t kMaskSite = 0xDA7A0200u;
// The epoch from which masks that never change are computed; no training reaches it.
inline constexpr uint32_t kNoEpoch = 0xFFFFFFFFu;

// Returns the threshold t = probability x 2^32: a random 32-bit number is below t with this probability.
constexpr uint64_t mask_threshold(double probability) {
  return static_cast<uint64_t>(probability * 4294967296.0);
}

// Returns the four random numbers of a block of Philox for this sequence. At the site kMaskSite each of them is for one of four
// positions; at kMaskSite + 1 all of them are for the position `block`.
inline std::array<uint32_t, 4> mask_numbers(const TokenMasking& masking, MaskedSequence of, uint32_t site,
                                            size_t block) {
  const bool is_fixed = masking.schedule == MaskSchedule::kNever;
  return philox_block({masking.seed, is_fixed ? kNoEpoch : static_cast<uint32_t>(of.epoch), site},
                      uint64_t{static_cast<uint32_t>(of.sequence)} << 32 | static_cast<uint32_t>(block));
}

// Calls visit(position) for every hidden token. id_at(position) returns the id of a token.
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

// Replaces the ids that are hidden.
void mask_ids(const TokenMasking& masking, MaskedSequence of, std::span<int32_t> ids);
// Replaces every id that is not hidden by kNoLabel.
void mask_labels(const TokenMasking& masking, MaskedSequence of, std::span<int32_t> ids);
}  // namespace plimsoll
