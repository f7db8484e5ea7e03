// The scores of the next token of some sequences, as a run of the model gives them: either all V logits of each, or only its largest ones
// with the logarithm of the sum of all exponentials (kernels/loss/top_logits.h), which is enough for greedy decoding and for beam search
// without processors. On a GPU this saves copying the logits and searching them on the host: with 32 beams of GPT-2 that took 3.5 of 4.3
// ms per token on an H100.
//
// Not thread-safe. Owns its numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/view.h"
#include "generate/generation_settings.h"

namespace plimsoll {

// The largest logits of a sequence, largest first, their tokens, and log(sum of exp(logit) over the vocabulary).
struct TopLogits {
  std::span<const float> values;
  std::span<const int32_t> tokens;
  double log_sum = 0.0;
};

// Returns the number of largest logits from which the next token can be selected, or 0 if all are needed: with sampling, with a
// processor that changes logits, or with more than a kernel selects. Greedy decoding on a CPU (`is_gpu` false) takes all,
// because they need not be copied.
int64_t num_candidates(const GenerationSettings& settings, bool is_gpu);

class NextScores {
 public:
  // `candidates` is 0 for all logits.
  NextScores(int64_t vocab_size, int64_t candidates) : vocab_size_(vocab_size), candidates_(candidates) {}

  bool has_all_logits() const { return candidates_ == 0; }

  // Replace the rows by those of a run. Requires: the views have this number of rows of V logits, or of candidates.
  void assign_logits(ConstView logits, int64_t num_rows);
  void assign_top(ConstView values, ConstView tokens, ConstView log_sums, int64_t num_rows);
  // Appends a row of `other`. Requires: both objects hold all logits, or the same number of largest ones.
  void append(const NextScores& other, size_t row);

  // Returns the logits of a row. Requires: has_all_logits().
  std::span<float> logits(size_t row);
  // Returns the largest logits of a row. Requires: !has_all_logits().
  TopLogits top(size_t row) const;

 private:
  int64_t vocab_size_;
  int64_t candidates_;
  std::vector<float> values_;  // logits, or the largest ones
  std::vector<int32_t> tokens_;
  std::vector<double> log_sums_;
};

}  // namespace plimsoll
