// Generates texts with a model whose memory is planned. The first run of the model (prefill) processes the prompts; each further run
// processes one new token per sequence and reads the keys and values of earlier tokens from the KV cache. Tokens are selected by
// token_selection.h and beam_search.h. Nothing is allocated on the device after start().
//
// Prompts are processed in groups of at most `prompts_at_once`. The texts of a prompt do not depend on the other prompts of its group,
// except through rounding: the order of summation in matrix products may depend on the number of rows.
//
// Not thread-safe. Owns the session (the plan, the memory and the weights of the run).
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

// States why a text ended.
enum class TextEnd : uint8_t { kEndToken, kStopString, kLength, kInterrupted };

struct GeneratedText {
  std::vector<int32_t> tokens;  // new tokens, including the end token if there is one
  TextEnd end = TextEnd::kLength;
  double score = 0.0;  // with beam search: sum of log probabilities, divided by length^length_penalty
};

// Returns the number of sequences of a prompt that exist at the same time: its beams, or its texts.
int64_t sequences_per_prompt(const GenerationSettings& settings);

// Statistics of the work that was done since the generator was created. They do not include warm_up().
struct GenerationWork {
  int64_t num_prompts = 0;
  int64_t prompt_tokens = 0;
  int64_t num_texts = 0;   // number of returned texts
  int64_t new_tokens = 0;  // number of new tokens in the returned texts
  // Number of runs of the model with one new token per sequence, and number of tokens that they process. Tokens of beams that are not
  // returned are included.
  int64_t decode_runs = 0;
  int64_t decoded_tokens = 0;
  // Bytes of the weights and of the KV cache that these decode_runs runs of the model read, counted as in DecodeReads.
  double decode_weight_bytes = 0;
  double decode_cache_bytes = 0;
  // Durations. first_token_seconds ends when the first token of every text of the first group of prompts has been selected.
  // prefill_seconds is the same time summed over all groups. decode_seconds is the rest of the time.
  double first_token_seconds = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

class TextGenerator {
 public:
  // Called with each new token, in the order of generation: the index of the prompt, the index of the text among those of the prompt, and
  // the token. With beam search it is called only when a text is complete.
  using OnToken = std::function<void(int64_t prompt, int64_t text, int32_t token)>;
  // Called with all texts of a prompt when they are complete, or when the run was stopped. The calls are in the order of the prompts.
  using OnTexts = std::function<void(int64_t prompt, const std::vector<GeneratedText>& texts)>;

  // Requires: the setup is for a run that generates texts, and has a tokenizer if there are stop strings.
  TextGenerator(RunSetup setup, FileSystem& files, GenerationSettings settings);

  Session& session() { return session_; }

  // Makes generate() return after the run of the model during which `*stop` becomes true. Unfinished texts then end with the tokens
  // generated so far, and prompts that were not begun have no texts.
  void set_stop(const std::atomic<bool>* stop) { stop_ = stop; }

  // Returns num_return_sequences texts for each prompt, in the order of the prompts. `first_prompt` is the number of the first prompt
  // within the whole run; random numbers depend on it. Errors: kUsage for a prompt without tokens, with more tokens than planned, or with
  // an id outside the vocabulary; kNotFinite if the model returns NaN. Requires: the session is allocated.
  std::vector<std::vector<GeneratedText>> generate(std::span<const std::vector<int32_t>> prompts,
                                                   int64_t first_prompt, const OnToken& on_token = {},
                                                   const OnTexts& on_texts = {});

  // Warms up the model: generates a few tokens for each number of prompts that can be processed together, so that later
  // runs need no preparations. The first run in a bucket (sizes of a batch) prepares its ops and loads kernels, and on
  // a GPU the second run captures a CUDA graph. This work is not counted in the statistics. Requires: as generate().
  void warm_up(std::span<const std::vector<int32_t>> prompts);

  const GenerationWork& work() const { return work_; }

 private:
  class Group;

  // Runs the model over the new tokens of some sequences, and returns the scores of the token that follows each sequence. Requires: the
  // page table has pages for the new tokens. The result is valid until the next run.
  struct NewTokens {
    SequenceId sequence{0};
    std::span<const int32_t> tokens;
  };
  NextScores& run(std::span<const NewTokens> rows);
  // Runs the model over one new token per sequence, and adds this work to the statistics.
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
