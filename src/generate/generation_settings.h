// The settings of text generation: names, meanings and defaults of transformers' GenerationConfig (5.x), and the reader of
// generation_config.json. It is plain data; the algorithms are in the other files of this folder.
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

// The condition under which beam search of a prompt ends although beams could continue. kHeuristic (false in
// GenerationConfig): when the best running beam, with its score at the present length, cannot enter the finished
// beams. kWhenFull (true): as soon as num_beams beams are finished. kNever ("never"): as kHeuristic, but with the
// best score that any longer text could have.
enum class BeamStopping : uint8_t { kHeuristic, kWhenFull, kNever };

// The number of tokens of a text. A text has max_new_tokens new tokens at most; without it, max_length tokens including its
// prompt; without either, kDefaultNewTokens new tokens or as many as the model has positions for.
struct GenerationLength {
  std::optional<int64_t> max_new_tokens;  // >= 1
  std::optional<int64_t> max_length;      // >= 1
  std::optional<int64_t> min_new_tokens;  // >= 0; if present, min_length is not used
  int64_t min_length = 0;                 // >= 0, includes the prompt
};
inline constexpr int64_t kDefaultNewTokens = 20;

struct SamplingSettings {
  bool do_sample = false;
  double temperature = 1.0;                    // > 0
  int64_t top_k = 50;                          // >= 0; 0 keeps every token
  double top_p = 1.0;                          // in [0, 1]
  std::optional<double> min_p = std::nullopt;  // in [0, 1]
  uint64_t seed = 42;                          // Trainer's default; GenerationConfig has no seed
};

struct BeamSettings {
  int64_t num_beams = 1;  // >= 1
  double length_penalty = 1.0;
  BeamStopping early_stopping = BeamStopping::kHeuristic;
};

struct GenerationSettings {
  GenerationLength length;
  SamplingSettings sampling;
  BeamSettings beams;
  double repetition_penalty = 1.0;   // > 0
  int64_t no_repeat_ngram_size = 0;  // >= 0; 0 allows repetitions
  int64_t num_return_sequences = 1;  // >= 1; at most num_beams if there are several beams
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;
  std::vector<std::string> stop_strings;
};

// Checks every range, and the combinations that transformers refuses. Errors: kUsage with the name, the value and the range.
void check_generation_settings(const GenerationSettings& settings);

// Returns the most beams that a vocabulary allows: beam search takes (1 + number of end tokens) * num_beams candidates, at least two per
// beam, of which every beam must be able to give all.
int64_t max_num_beams(const GenerationSettings& settings, int64_t vocab_size);

// Checks that the special tokens are ids of the vocabulary and that beam search has enough tokens to choose from.
// Requires: check_generation_settings() passes. Errors: kUsage.
void check_generation_vocabulary(const GenerationSettings& settings, int64_t vocab_size);

// Returns the largest and the smallest number of new tokens after a prompt. `max_positions` is the number of positions of the
// model. Requires: prompt_length >= 1. Errors: kUsage if the prompt leaves no room for a new token, if it has max_length tokens
// already, or if max_new_tokens asks for more positions than the model has.
int64_t max_new_tokens(const GenerationSettings& settings, int64_t prompt_length, int64_t max_positions);
int64_t min_new_tokens(const GenerationSettings& settings, int64_t prompt_length);

// Returns true if the token ends a text.
bool is_end_token(const GenerationSettings& settings, int32_t token);

// Sets the settings that a generation_config.json states and keeps the others. `where` names the file in messages. Keys that
// change the result in transformers and that Plimsoll does not implement are refused by name, unless they have the value that
// switches them off. Keys without influence on the result (use_cache, transformers_version, ...) and keys that transformers
// does not know are ignored, as transformers does. Errors: kBadData for values of a wrong type or out of range; kUsage for a
// key that Plimsoll refuses.
void read_generation_config(const nlohmann::json& json, std::string_view where, GenerationSettings* settings);

// Returns the names of the keys that the reader uses, refuses, or knows to have no influence; a test compares them with the
// attributes of transformers' GenerationConfig.
std::vector<std::string> known_generation_keys();

}  // namespace plimsoll
