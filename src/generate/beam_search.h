// Beam search for one prompt, equal to transformers 5's `_beam_search` token for token, and beam search with sampling. It computes on the
// host and does not run the model. In each step it receives candidates for the next token of each beam, and returns for each new beam
// which old beam it continues and with which token. With this the caller can share or copy the cached keys and values (page_table.h).
//
// Every prompt is searched separately. The results equal those of a batch in transformers, because
// there a finished prompt does not change while others continue.
//
// A step (N beams, E end tokens, K = max(2, 1 + E) N candidates, s_b the score of beam b, t new tokens with this one,
// lp the length penalty; scores are fp32 and every operation rounds once, as in transformers):
//
//   candidates    the K best of s_b + log p_b(token) over all beams and tokens
//   finished      a candidate that ends with an end token or a stop string, or that has the largest number of tokens
//   running       the N best candidates that are not finished
//   result        the N best of the finished beams so far and of the finished ones among the first N candidates, which
//                 have the score (s_b + log p_b) / t^lp
//   end           when no running beam can improve the result (BeamStopping), or when every candidate is finished
//
// Before the first step beam 0 has the score 0 and the others -1e9, so all beams continue the prompt with different tokens.
//
// Candidates with equal sums are ordered by the number of the beam, then by log p (the larger
// first), then by the number of the token. (torch.topk defines no order for them.)
//
// With sampling, the K candidates are drawn without replacement from softmax(s_b + log p_b): they are the K largest of
// s_b + log p_b + Gumbel number (token_selection.h), in the order of s_b + log p_b.
//
// Not thread-safe; different prompts may run on different threads. It owns its tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "generate/generation_settings.h"

namespace plimsoll {

// A candidate for the next token of a beam. Candidates are ordered by `key`: log_prob, plus a Gumbel random number when sampling.
struct BeamCandidate {
  float key = 0.0f;
  float log_prob = 0.0f;
  int32_t token = 0;
};

// Returns the number of candidates per beam that a step needs.
int64_t candidates_per_beam(const GenerationSettings& settings);

// Selects the candidates of one beam from the V processed log probabilities (log_softmax, then LogitsProcessors), best first. `row` is
// (number of the prompt) * num_beams + beam, and `position` the number of new tokens so far; both determine the random numbers of
// sampling and are not used otherwise. Requires: V >= candidates_per_beam(). Cost: O(V).
void select_candidates(const GenerationSettings& settings, std::span<const float> log_probs, uint32_t row,
                       uint32_t position, std::vector<BeamCandidate>* candidates);

// Selects the same candidates as the function above, for a search without processors and sampling. It needs only the
// largest logits of a beam and the logarithm of the sum of all exponentials. Requires: at least candidates_per_beam()
// logits, largest first; equal logits are in the order of their tokens. Errors: as select_greedy().
void take_candidates(std::span<const float> logits, std::span<const int32_t> tokens, double log_sum,
                     std::vector<BeamCandidate>* candidates);

// A text that beam search has completed.
struct BeamResult {
  std::vector<int32_t> tokens;  // new tokens, including the end token if there is one
  float score = 0.0f;           // sum of log probabilities, divided by length^length_penalty
};

class BeamSearch {
 public:
  // A function that returns true if the last token of a text (prompt and new tokens) completes a stop string.
  using StopCheck = std::function<bool(std::span<const int32_t>)>;

  // Requires: max_new >= 1, and settings for which check_generation_settings() passes. `ends_with_stop` may be empty.
  BeamSearch(const GenerationSettings& settings, std::span<const int32_t> prompt, int64_t max_new,
             StopCheck ends_with_stop = {});

  // Returns the number of rows for which the next step needs candidates: 1 (the prompt) before the first step, then num_beams.
  int64_t num_rows() const { return num_new_ == 0 ? 1 : num_beams_; }
  // Returns the tokens of a row of the next step: prompt and new tokens.
  std::span<const int32_t> history(int64_t row) const { return beams_[static_cast<size_t>(row)].tokens; }
  int64_t num_new_tokens() const { return num_new_; }

  // Performs a step. Requires: not is_done(); `rows` contains the result of select_candidates() for each of the num_rows() rows.
  void advance(std::span<const std::vector<BeamCandidate>> rows);

  // Ends the search early. The running beams, best first, become results until there are num_beams results. Requires: not is_done().
  void stop();

  // Returns true if no further step is needed.
  bool is_done() const { return is_done_; }
  // Return for each new beam the row of the last step that it continues, and the token that it appends.
  std::span<const int32_t> parents() const { return parents_; }
  std::span<const int32_t> tokens() const { return tokens_; }

  // Returns the best num_return_sequences texts, best first. Requires: is_done().
  std::vector<BeamResult> results() const;

 private:
  struct Beam {
    std::vector<int32_t> tokens;  // tokens of the beam: prompt and new tokens
    float score = 0.0f;
    bool is_finished = false;
  };
  struct Continuation {
    float key = 0.0f;
    float score = 0.0f;
    float log_prob = 0.0f;
    int32_t row = 0;
    int32_t token = 0;
    bool is_finished = false;
  };

  // Stores the best continuations of all beams in `best_`, best first.
  void find_best(std::span<const std::vector<BeamCandidate>> rows);
  Continuation continuation_of(size_t row, const BeamCandidate& candidate) const;
  bool is_end(const Continuation& continuation) const;
  void extend(const Continuation& continuation, Beam* to) const;
  void update_results();
  void update_beams();
  bool can_improve() const;

  GenerationSettings settings_;
  StopCheck ends_with_stop_;
  int64_t num_beams_;
  int64_t prompt_length_;
  int64_t max_new_;
  int64_t num_new_ = 0;
  bool is_done_ = false;
  bool may_improve_ = true;  // false once no running beam can improve the results
  std::vector<Beam> beams_;
  std::vector<Beam> next_beams_;  // the beams of the step before, whose memory the next step uses again
  std::vector<Beam> results_;
  std::vector<Continuation> best_;
  std::vector<size_t> num_taken_;  // for each row, the number of its candidates in best_
  std::vector<int32_t> parents_;
  std::vector<int32_t> tokens_;
};

}  // namespace plimsoll
