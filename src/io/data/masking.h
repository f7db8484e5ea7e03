// The tokens that a masked language model learns to predict, as transformers' DataCollatorForLanguageModeling chooses them:
// each token that is not special is hidden with a given probability. 80 % of the hidden tokens become the mask token, 10 % a
// random token, and 10 % keep their id. Thread-safe: pure functions.
//
// Every choice is a function of (seed, epoch, sequence, position in the sequence), so it does not depend on the batch, the
// threads, or a resumed run: lane 0 to 2 of Philox with the key `seed`, the site kMaskSite, the step `epoch`, and the block
// sequence * 2^32 + position.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "plimsoll/data.h"  // kNoLabel

namespace plimsoll {

// When a sequence gets another mask.
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

// Returns the id that the model sees instead of a hidden token, or nothing if the token is not hidden.
std::optional<int32_t> hidden_id(const TokenMasking& masking, MaskedSequence of, int64_t position,
                                 int32_t id);

// Replaces the ids that are hidden.
void mask_ids(const TokenMasking& masking, MaskedSequence of, std::span<int32_t> ids);
// Replaces every id that is not hidden by kNoLabel.
void mask_labels(const TokenMasking& masking, MaskedSequence of, std::span<int32_t> ids);
}  // namespace plimsoll
