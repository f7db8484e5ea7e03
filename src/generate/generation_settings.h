// The settings of text generation, with the names, meanings and defaults of transformers' GenerationConfig (5.x), and a reader of
// generation_config.json. The settings are plain data; the algorithms that use them are in the other files of this folder.
//
// Thread-safe: values and pure functions, except for reading files.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// States when a beam search ends although its beams could be continued (early_stopping in GenerationConfig). kHeuristic
// (false): when the best running beam would not be good enough to become a result if it ended now. kWhenFull (true): as soon
// as num_beams beams are finished. kNever ("never"): like kHeuristic, but with the best score that any longer text could have.
enum class BeamStopping : uint8_t { kHeuristic, kWhenFull, kNever };

// The limits for the number of tokens of a text. The largest number of new tokens is max_new_tokens. If it is not set, the text including
// its prompt has at most max_length tokens. If neither is set, there are at most kDefaultNewTokens new tokens, or fewer if the model does
// not have enough positions.
struct GenerationLength {
  std::optional<int64_t> max_new_tokens;  // largest number of new tokens; must be >= 1
  std::optional<int64_t> max_length;      // largest number of tokens including the prompt; must be >= 1
  // smallest number of new tokens; must be >= 0; if set, min_length is ignored
  std::optional<int64_t> min_new_tokens;
  int64_t min_length = 0;  // smallest number of tokens including the prompt; must be >= 0
};
inline constexpr int64_t kDefaultNewTokens = 20;

struct SamplingSettings {
  bool do_sample = false;
  double temperature = 1.0;  // divisor of the logits before softmax; must be > 0
  int64_t top_k = 50;        // number of likeliest tokens that are kept; must be >= 0; 0 keeps every token
  double top_p = 1.0;        // probability that the kept tokens must reach together; must be in [0, 1]
  // a token is kept if its probability is at least this fraction of the largest one; must be in [0, 1]
  std::optional<double> min_p = std::nullopt;
  // seed of the random numbers, with the default of Trainer because GenerationConfig has none
  uint64_t seed = 42;
};

struct BeamSettings {
  int64_t num_beams = 1;  // number of beams of beam search; must be >= 1
  double length_penalty = 1.0;
  BeamStopping early_stopping = BeamStopping::kHeuristic;
};

struct GenerationSettings {
  GenerationLength length;
  SamplingSettings sampling;
  BeamSettings beams;
  // divides the positive and multiplies the negative logits of tokens that already occur; must be > 0
  double repetition_penalty = 1.0;
  // length of the n-grams that must not repeat; must be >= 0; 0 allows repetitions
  int64_t no_repeat_ngram_size = 0;
  // number of texts per prompt; must be >= 1, and at most num_beams if there are several beams
  int64_t num_return_sequences = 1;
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;
  std::vector<std::string> stop_strings;
};

// Checks the range of every setting, and refuses the same combinations as transformers. Errors: kUsage with the name, the value and the
// range.
void check_generation_settings(const GenerationSettings& settings);

// Returns the largest number of beams for a vocabulary of this size. Beam search needs (1 + number of end tokens) * num_beams candidates,
// at least two per beam, and a single beam must be able to provide all of them.
int64_t max_num_beams(const GenerationSettings& settings, int64_t vocab_size);

// Checks that the special tokens are in the vocabulary and that the vocabulary is large enough for beam search. Requires:
// check_generation_settings() passes. Errors: kUsage.
void check_generation_vocabulary(const GenerationSettings& settings, int64_t vocab_size);

// Returns the largest and the smallest number of new tokens after a prompt. `max_positions` is the number of
// positions of the model. Requires: prompt_length >= 1. Errors: kUsage if the prompt needs all positions, if
// it already has max_length tokens, or if max_new_tokens requires more positions than the model has.
int64_t max_new_tokens(const GenerationSettings& settings, int64_t prompt_length, int64_t max_positions);
int64_t min_new_tokens(const GenerationSettings& settings, int64_t prompt_length);

// Returns true if the token ends a text.
bool is_end_token(const GenerationSettings& settings, int32_t token);

// Changes the settings that a generation_config.json states and keeps the others. `where` is the name of the file in messages. Keys that
// change the result in transformers and that Plimsoll does not implement are refused by name, unless they have a value that switches them
// off. Keys that do not affect the result (use_cache, transformers_version, ...) and keys that transformers does not know are ignored, as
// transformers does. Errors: kBadData for values of a wrong type or out of range; kUsage for a key that Plimsoll refuses.
void read_generation_config(const nlohmann::json& json, std::string_view where, GenerationSettings* settings);

// Returns the names of the keys that the reader uses, refuses, or ignores because they do not affect the result. A test compares them
// with the attributes of transformers' GenerationConfig.
std::vector<std::string> known_generation_keys();

}  // namespace plimsoll
