// The scores for the next token of some sequences, as a run of the model returns them. For each sequence these are either all
// V logits, or only the largest ones and the logarithm of the sum of all exponentials (kernels/loss/top_logits.h). The latter
// are sufficient for greedy decoding and for beam search without processors. On a GPU this avoids copying all logits to the
// host and searching them there, which took 3.5 of the 4.3 ms per token in a beam search with 32 beams of GPT-2 on an H100.
//
// Not thread-safe. Owns its numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/view.h"
#include "generate/generation_settings.h"

namespace plimsoll {

// The largest logits of a sequence in descending order, their tokens, and the logarithm of the sum of exp(logit) over the vocabulary.
struct TopLogits {
  std::span<const float> values;
  std::span<const int32_t> tokens;
  double log_sum = 0.0;
};

// Returns how many of the largest logits are enough to select the next token, or 0 if all logits are needed: for sampling, with a
// processor that changes logits, and if the number is larger than the kernel supports. Greedy decoding on a CPU (`is_gpu` is false) uses
// all logits, because they need not be copied.
int64_t num_candidates(const GenerationSettings& settings, bool is_gpu);

class NextScores {
 public:
  // `candidates` is the number of largest logits that are stored per row, or 0 if all logits are stored.
  NextScores(int64_t vocab_size, int64_t candidates) : vocab_size_(vocab_size), candidates_(candidates) {}

  bool has_all_logits() const { return candidates_ == 0; }

  // Replace the rows by the results of a run of the model. Requires: the views have num_rows rows,
  // each with V logits (assign_logits()) or with the `candidates` largest ones (assign_top()).
  void assign_logits(ConstView logits, int64_t num_rows);
  void assign_top(ConstView values, ConstView tokens, ConstView log_sums, int64_t num_rows);
  // Appends a row of `other`. Requires: both objects store all logits, or the same number of largest ones.
  void append(const NextScores& other, size_t row);

  // Returns the logits of a row. Requires: has_all_logits().
  std::span<float> logits(size_t row);
  // Returns the largest logits of a row. Requires: !has_all_logits().
  TopLogits top(size_t row) const;

 private:
  int64_t vocab_size_;
  int64_t candidates_;
  std::vector<float> values_;  // all logits of each row, or the largest ones
  std::vector<int32_t> tokens_;
  std::vector<double> log_sums_;
};

}  // namespace plimsoll
