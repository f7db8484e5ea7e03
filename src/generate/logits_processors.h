// Changes the logits of the next token before it is selected, in the order and with the formulas of transformers 5: repetition penalty,
// no repeated n-grams, a minimum number of new tokens; for sampling also temperature, top-k, top-p and min-p. The selection itself is in
// token_selection.h and beam_search.h.
//
// Legend: V tokens of the vocabulary, x_v the score of token v, L tokens of the prompt and the text so far. A removed token gets the
// score -infinity.
//
//   repetition penalty r   x_v = x_v < 0 ? x_v r : x_v / r     for each token v of the L tokens, once
//   n-grams of size n      removes v if the last n - 1 tokens followed by v occur among the L tokens
//   minimum                removes the end tokens while there are fewer than min_new_tokens new tokens
//   temperature t          x_v = x_v / t
//   top-k                  removes v if x_v is below the k-th largest score. Tokens that equal it stay.
//   top-p                  removes v if the probabilities of v and of the tokens below it sum to 1 - top_p at most
//   min-p                  removes v if its probability is below min_p times the largest one
//
// Top-k, top-p and min-p keep at least 1 token, and with beam search 1 + number of end tokens, so that a beam can
// continue. Each of them uses the scores that the previous one has changed. Of two equal scores, that of the smaller
// id counts as the lower one, as in a stable ascending sort; torch.sort and torch.topk do not define this order.
//
// Numerics: scores are fp32, and each formula rounds once to fp32, as in transformers. Probabilities are computed
// in double from the scores. transformers computes them in fp32, so it may decide differently for a token whose
// sum of probabilities differs from the threshold of top-p by less than the rounding error of fp32 (about 1e-7).
//
// Cost: O(V + L) per call. Nothing sorts V scores: top-k keeps a heap of k, top-p partitions around pivots. Not thread-safe: one
// object per thread, because it owns scratch memory that grows once to V entries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/generation_settings.h"

namespace plimsoll {

// A token with its score.
struct ScoredToken {
  float score = 0.0f;
  int32_t token = 0;
};

class LogitsProcessors {
 public:
  // Requires: check_generation_settings() and check_generation_vocabulary() pass for the settings.
  LogitsProcessors(const GenerationSettings& settings, int64_t vocab_size);

  // Changes the V scores of the token that follows `history`, which consists of the prompt and the text so far. Greedy decoding and
  // sampling pass logits as scores; beam search passes their log_softmax. Requires: `scores` has V entries; the ids in `history` are
  // below V.
  void apply(std::span<const int32_t> history, int64_t prompt_length, std::span<float> scores);

 private:
  void penalize_repetitions(std::span<const int32_t> history, std::span<float> scores);
  void remove_repeated_ngrams(std::span<const int32_t> history, std::span<float> scores) const;
  void keep_top_k(std::span<float> scores);
  void keep_top_p(std::span<float> scores);
  void keep_min_p(std::span<float> scores);

  GenerationSettings settings_;
  int64_t min_tokens_to_keep_ = 1;
  // for each token of the vocabulary, the number of the last call whose history contained the token
  std::vector<uint32_t> last_seen_;
  uint32_t call_ = 0;
  std::vector<float> heap_;
  std::vector<ScoredToken> kept_;
};

// Returns the logarithm of the sum of exp(x_v) over all scores, computed as the largest score plus the logarithm of a sum in double.
// Errors: as select_greedy().
double log_sum_exp(std::span<const float> scores);

// Subtracts log_sum_exp() from each score, rounded to fp32.
void log_softmax_in_place(std::span<float> scores);

}  // namespace plimsoll
