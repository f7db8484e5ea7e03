// Generates texts with a planned model: prefill of the prompts, then one token per sequence and run of the model, with the keys and values
// of earlier tokens in the pages of a planned cache. Selection is in token_selection.h and beam_search.h. Nothing is allocated on the
// device after start().
//
// Prompts are processed in groups of at most `prompts_at_once`. A prompt's texts do not depend on the other prompts of its group,
// except for the roundings of matrix products, whose order of summation may depend on the number of rows.
//
// Not thread-safe. Owns the session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generate/generation_settings.h"
#include "generate/page_table.h"
#include "generate/stop_strings.h"
#include "train/session.h"

namespace plimsoll {

// Why a text ended.
enum class TextEnd : uint8_t { kEndToken, kStopString, kLength };

struct GeneratedText {
  std::vector<int32_t> tokens;  // the new tokens, with the end token if there is one
  TextEnd end = TextEnd::kLength;
  double score = 0.0;  // of beam search: sum of log probabilities / length^length_penalty
};

// The sizes that a plan for generation has room for.
struct GenerationSizes {
  int64_t longest_prompt = 0;   // tokens
  int64_t max_new_tokens = 0;   // after any prompt
  int64_t prompts_at_once = 1;  // prompts of a group
  int64_t sequences_per_prompt = 1;
};

inline constexpr int64_t kKvPageSize = 16;  // tokens per page

// Returns the number of sequences of a prompt that exist at once: its beams, or its texts.
int64_t sequences_per_prompt(const GenerationSettings& settings);

// Returns the cache and the bucket of a plan with these sizes.
GenerationOptions generation_options(const GenerationSizes& sizes);
Bucket generation_bucket(const GenerationSizes& sizes);

class TextGenerator {
 public:
  // Called with each new token of a text, in the order of the run: number of the prompt, number of the text, token. Beam
  // search calls it when the text is complete.
  using OnToken = std::function<void(int64_t prompt, int64_t text, int32_t token)>;

  // Requires: the setup's request has a generation program with the options and the bucket of these sizes; the tokenizer of the setup if
  // there are stop strings.
  TextGenerator(RunSetup setup, FileSystem& files, GenerationSettings settings, const GenerationSizes& sizes);

  Session& session() { return session_; }

  // Returns num_return_sequences texts for each prompt, in the order of the prompts. `first_prompt`: the number of the first prompt in the
  // run, from which random numbers derive. Errors: kUsage for a prompt without tokens, with more tokens than planned, or with an id outside the
  // vocabulary; kNotFinite if the model returns NaN. Requires: the session is allocated.
  std::vector<std::vector<GeneratedText>> generate(std::span<const std::vector<int32_t>> prompts,
                                                   int64_t first_prompt, const OnToken& on_token = {});

  // The numbers of tokens that the model has read since the start: of prompts, and one by one.
  int64_t num_prompt_tokens() const { return num_prompt_tokens_; }
  int64_t num_decoded_tokens() const { return num_decoded_tokens_; }

 private:
  class Group;

  // Runs the model over the new tokens of some sequences, which the pages have room for, and returns V logits for each. Valid until the
  // next run.
  struct NewTokens {
    SequenceId sequence{0};
    std::span<const int32_t> tokens;
  };
  std::span<float> run(std::span<const NewTokens> rows);

  GenerationSettings settings_;
  GenerationSizes sizes_;
  Session session_;
  PageTable pages_;
  TensorBatch batch_;
  std::vector<float> logits_;
  std::unique_ptr<StopStrings> stop_strings_;
  int64_t num_prompt_tokens_ = 0;
  int64_t num_decoded_tokens_ = 0;
};

}  // namespace plimsoll
