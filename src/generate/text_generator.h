// Generates texts with a planned model: prefill of the prompts, then one token per sequence and run of the model, with the keys and values
// of earlier tokens in the pages of a planned cache. Selection is in token_selection.h and beam_search.h. Nothing is allocated on the
// device after start().
//
// Prompts are processed in groups of at most `prompts_at_once`. A prompt's texts do not depend on the other prompts of its group,
// except for the roundings of matrix products, whose order of summation may depend on the number of rows.
//
// Not thread-safe. Owns the session.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generate/generation_settings.h"
#include "generate/next_scores.h"
#include "generate/page_table.h"
#include "generate/stop_strings.h"
#include "plan/anatomy/generation.h"
#include "train/session.h"

namespace plimsoll {

// The reason why a text ended.
enum class TextEnd : uint8_t { kEndToken, kStopString, kLength, kInterrupted };

struct GeneratedText {
  std::vector<int32_t> tokens;  // the new tokens, with the end token if there is one
  TextEnd end = TextEnd::kLength;
  double score = 0.0;  // beam search: sum of log probabilities / length^length_penalty
};

// Returns the number of sequences of a prompt that exist at once: its beams, or its texts.
int64_t sequences_per_prompt(const GenerationSettings& settings);

// The work of the generator since it was started, without the work of warm_up().
struct GenerationWork {
  int64_t num_prompts = 0;
  int64_t prompt_tokens = 0;
  int64_t num_texts = 0;   // number of returned texts
  int64_t new_tokens = 0;  // number of new tokens in these texts
  // Runs of the model with one new token per sequence, and the tokens that they read, with those of beams that are not returned.
  int64_t decode_runs = 0;
  int64_t decoded_tokens = 0;
  // Bytes of weights and of the cache that all of these runs read, as DecodeReads counts them.
  double decode_weight_bytes = 0;
  double decode_cache_bytes = 0;
  // first_token_seconds: the time until the first token of every text of the first group of prompts is selected. prefill_seconds:
  // the same, summed over all groups. decode_seconds: the rest of the time.
  double first_token_seconds = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

class TextGenerator {
 public:
  // Called with each new token, in the order of the run: the index of the prompt, the index of the text among those of the
  // prompt, and the token. Beam search calls it when the text is complete.
  using OnToken = std::function<void(int64_t prompt, int64_t text, int32_t token)>;
  // Called with the texts of a prompt when all are complete, or when the run was stopped, in the order of the prompts.
  using OnTexts = std::function<void(int64_t prompt, const std::vector<GeneratedText>& texts)>;

  // Requires: the setup's request has a generation program; the setup has a tokenizer if there are stop strings.
  TextGenerator(RunSetup setup, FileSystem& files, GenerationSettings settings);

  Session& session() { return session_; }

  // Makes generate() end after the run of the model during which `*stop` becomes true. Its texts then have the tokens so far, and prompts
  // that were not begun have no texts.
  void set_stop(const std::atomic<bool>* stop) { stop_ = stop; }

  // Returns num_return_sequences texts for each prompt, in the order of the prompts. `first_prompt`: the number of the first prompt in
  // the run, from which random numbers derive. Errors: kUsage for a prompt without tokens, with more tokens than planned, or with an id
  // outside the vocabulary; kNotFinite if the model returns NaN. Requires: the session is allocated.
  std::vector<std::vector<GeneratedText>> generate(std::span<const std::vector<int32_t>> prompts,
                                                   int64_t first_prompt, const OnToken& on_token = {},
                                                   const OnTexts& on_texts = {});

  // Generates a few tokens after prompts of each size that a group of `prompts` can have, as often as it takes until later runs of
  // the model cost no more than any other: the first run in a bucket binds its ops and loads kernels, and the second one captures
  // a graph on a GPU. The work is not counted. Requires: as generate().
  void warm_up(std::span<const std::vector<int32_t>> prompts);

  const GenerationWork& work() const { return work_; }

 private:
  class Group;

  // Runs the model over the new tokens of some sequences, which the pages have room for, and returns the scores of the token that
  // follows each. Valid until the next run.
  struct NewTokens {
    SequenceId sequence{0};
    std::span<const int32_t> tokens;
  };
  NextScores& run(std::span<const NewTokens> rows);
  // Runs the model over one new token per sequence, and counts the work.
  NextScores& decode(std::span<const NewTokens> rows);
  bool is_stopped() const { return stop_ != nullptr && stop_->load(); }

  GenerationSettings settings_;
  Session session_;
  GenerationSizes sizes_;  // the sizes that the plan has memory for
  PageTable pages_;
  TensorBatch batch_;
  NextScores scores_;
  std::unique_ptr<StopStrings> stop_strings_;
  DecodeReads decode_reads_;
  GenerationWork work_;
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace plimsoll
