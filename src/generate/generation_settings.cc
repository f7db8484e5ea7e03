#include "generate/generation_settings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/check.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// A key of generation_config.json that requests a method of generation which Plimsoll does not implement; the error
// message names the key. `off` lists the values, as JSON, that switch the method off, so that the key is accepted.
struct RefusedKey {
  const char* name;
  std::vector<const char*> off;
};

const std::vector<RefusedKey>& refused_keys() {
  static const std::vector<RefusedKey> kKeys = {
      {"assistant_early_exit", {}},
      {"bad_words_ids", {"[]"}},
      {"begin_suppress_tokens", {"[]"}},
      {"constraints", {"[]"}},
      {"decoder_start_token_id", {}},
      {"diversity_penalty", {"0"}},
      {"dola_layers", {}},
      {"encoder_no_repeat_ngram_size", {"0"}},
      {"encoder_repetition_penalty", {"1"}},
      {"epsilon_cutoff", {"0"}},
      {"eta_cutoff", {"0"}},
      {"exponential_decay_length_penalty", {}},
      {"force_words_ids", {"[]"}},
      {"forced_bos_token_id", {}},
      {"forced_eos_token_id", {}},
      {"guidance_scale", {"1"}},
      {"max_time", {}},
      {"num_beam_groups", {"1"}},
      {"penalty_alpha", {"0"}},
      {"prompt_lookup_num_tokens", {}},
      {"remove_invalid_values", {"false"}},
      {"renormalize_logits", {"false"}},
      {"sequence_bias", {"{}", "[]"}},
      {"speculation_type", {}},
      {"suppress_tokens", {"[]"}},
      {"token_healing", {"false"}},
      {"top_h", {}},
      {"typical_p", {"1"}},
      {"use_mtp", {"false"}},
      {"watermarking_config", {}},
  };
  return kKeys;
}

// Keys that do not affect the generated tokens: settings of caches, of compilation and of what transformers returns in addition to the
// tokens, and options for assistant models, which have no effect without such a model.
constexpr const char* kKeysWithoutEffect[] = {"_from_model_config",
                                              "assistant_confidence_threshold",
                                              "assistant_ensemble_weight",
                                              "assistant_lookbehind",
                                              "cache_config",
                                              "cache_implementation",
                                              "compile_config",
                                              "continuous_batching_config",
                                              "disable_compile",
                                              "is_assistant",
                                              "low_memory",
                                              "max_cache_len",
                                              "max_matching_ngram_size",
                                              "num_assistant_tokens",
                                              "num_assistant_tokens_schedule",
                                              "output_attentions",
                                              "output_hidden_states",
                                              "output_logits",
                                              "output_scores",
                                              "prefill_chunk_size",
                                              "return_dict_in_generate",
                                              "target_lookbehind",
                                              "transformers_version",
                                              "use_cache"};
constexpr const char* kReadKeys[] = {
    "max_new_tokens",       "max_length",   "min_new_tokens", "min_length",     "do_sample",
    "temperature",          "top_k",        "top_p",          "min_p",          "repetition_penalty",
    "no_repeat_ngram_size", "num_beams",    "length_penalty", "early_stopping", "num_return_sequences",
    "eos_token_id",         "bos_token_id", "pad_token_id",   "stop_strings"};

// Reads typed values from one file. The value null counts as absent, as in transformers.
class Reader {
 public:
  Reader(const Json& json, std::string_view where) : json_(json), where_(where) {}

  const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  [[noreturn]] void wrong(const char* key, const Json& found, const char* wanted) const {
    throw_error(ErrorCode::kBadData, "{}: {} is {}; it must be {}", where_, key,
                found.dump(-1, ' ', true, Json::error_handler_t::replace), wanted);
  }
  static bool is_int64(const Json& value) {
    return value.is_number_integer() &&
           !(value.is_number_unsigned() &&
             value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  }
  int64_t integer(const char* key, const Json& value) const {
    if (!is_int64(value)) wrong(key, value, "a whole number");
    return value.get<int64_t>();
  }
  template <typename Target>
  void read_integer(const char* key, Target* target) const {
    if (const Json* value = find(key)) *target = integer(key, *value);
  }
  template <typename Target>
  void read_number(const char* key, Target* target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number()) wrong(key, *value, "a number");
    *target = value->get<double>();
  }
  void read_flag(const char* key, bool* target) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) wrong(key, *value, "true or false");
    *target = value->get<bool>();
  }
  int32_t token(const char* key, const Json& value) const {
    const int64_t id = integer(key, value);
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) wrong(key, value, "a token id of at least 0");
    return static_cast<int32_t>(id);
  }
  void read_token(const char* key, std::optional<int32_t>* target) const {
    if (const Json* value = find(key)) *target = token(key, *value);
  }

 private:
  const Json& json_;
  std::string_view where_;
};

void read_lists(const Reader& reader, GenerationSettings* settings) {
  if (const Json* value = reader.find("eos_token_id")) {
    settings->eos_token_ids.clear();
    if (!value->is_array()) {
      settings->eos_token_ids.push_back(reader.token("eos_token_id", *value));
    } else {
      for (const Json& id : *value) settings->eos_token_ids.push_back(reader.token("eos_token_id", id));
    }
  }
  if (const Json* value = reader.find("stop_strings")) {
    settings->stop_strings.clear();
    const auto add = [&](const Json& text) {
      if (!text.is_string()) reader.wrong("stop_strings", *value, "a text or a list of texts");
      settings->stop_strings.push_back(text.get<std::string>());
    };
    if (value->is_array()) {
      for (const Json& text : *value) add(text);
    } else {
      add(*value);
    }
  }
  if (const Json* value = reader.find("early_stopping")) {
    if (value->is_boolean()) {
      settings->beams.early_stopping =
          value->get<bool>() ? BeamStopping::kWhenFull : BeamStopping::kHeuristic;
    } else if (*value == "never") {
      settings->beams.early_stopping = BeamStopping::kNever;
    } else {
      reader.wrong("early_stopping", *value, "true, false or \"never\"");
    }
  }
}

void refuse_missing_features(const Reader& reader, std::string_view where) {
  for (const RefusedKey& key : refused_keys()) {
    const Json* value = reader.find(key.name);
    if (value == nullptr) continue;
    const bool is_off =
        std::ranges::any_of(key.off, [&](const char* off) { return *value == Json::parse(off); });
    if (is_off) continue;
    throw_error(
        ErrorCode::kUsage,
        "{}: {} is {}, which changes the generated text, and Plimsoll does not implement it. Remove the key "
        "from the file to generate without it.",
        where, key.name, value->dump(-1, ' ', true, Json::error_handler_t::replace));
  }
}

void check_at_least(const char* name, int64_t value, int64_t least) {
  if (value >= least) return;
  throw_error(ErrorCode::kUsage, "{} is {}; it must be at least {}", name, value, least);
}
void check_at_least(const char* name, const std::optional<int64_t>& value, int64_t least) {
  if (value) check_at_least(name, *value, least);
}
void check_probability(const char* name, double value) {
  if (value >= 0.0 && value <= 1.0) return;
  throw_error(ErrorCode::kUsage, "{} is {}; it must be between 0 and 1", name, value);
}
// Temperature and repetition penalty are used in formulas that compute in fp32, so such a value must be positive and finite after rounding
// to fp32.
void check_positive(const char* name, double value, const char* hint) {
  const float rounded = static_cast<float>(value);
  if (rounded > 0.0f && std::isfinite(rounded)) return;
  throw_error(ErrorCode::kUsage, "{} is {}; it must be a finite number above 0{}", name, value, hint);
}

void check_returned(const GenerationSettings& settings) {
  check_at_least("num_return_sequences", settings.num_return_sequences, 1);
  const int64_t wanted = settings.num_return_sequences;
  if (wanted == 1) return;
  if (settings.beams.num_beams == 1 && !settings.sampling.do_sample) {
    throw_error(
        ErrorCode::kUsage,
        "num_return_sequences is {}, but greedy decoding gives one text. Set do_sample, or set num_beams to "
        "at least {}.",
        wanted, wanted);
  }
  if (settings.beams.num_beams > 1 && wanted > settings.beams.num_beams) {
    throw_error(
        ErrorCode::kUsage,
        "num_return_sequences is {}, but num_beams is {}; beam search returns at most num_beams texts",
        wanted, settings.beams.num_beams);
  }
}

}  // namespace

void check_generation_settings(const GenerationSettings& settings) {
  check_at_least("max_new_tokens", settings.length.max_new_tokens, 1);
  check_at_least("max_length", settings.length.max_length, 1);
  check_at_least("min_new_tokens", settings.length.min_new_tokens, 0);
  check_at_least("min_length", settings.length.min_length, 0);
  check_positive("temperature", settings.sampling.temperature,
                 settings.sampling.temperature == 0.0 ? ". Set do_sample to false for greedy decoding." : "");
  check_at_least("top_k", settings.sampling.top_k, 0);
  check_probability("top_p", settings.sampling.top_p);
  if (settings.sampling.min_p) check_probability("min_p", *settings.sampling.min_p);
  check_positive("repetition_penalty", settings.repetition_penalty, "");
  check_at_least("no_repeat_ngram_size", settings.no_repeat_ngram_size, 0);
  check_at_least("num_beams", settings.beams.num_beams, 1);
  if (!std::isfinite(settings.beams.length_penalty)) {
    throw_error(ErrorCode::kUsage, "length_penalty is {}; it must be a finite number",
                settings.beams.length_penalty);
  }
  check_returned(settings);
  for (const std::string& text : settings.stop_strings) {
    if (text.empty()) {
      throw_error(ErrorCode::kUsage,
                  "stop_strings contains an empty text, which would stop before the first token");
    }
  }
}

int64_t max_num_beams(const GenerationSettings& settings, int64_t vocab_size) {
  return vocab_size / std::max<int64_t>(2, 1 + std::ssize(settings.eos_token_ids));
}

void check_generation_vocabulary(const GenerationSettings& settings, int64_t vocab_size) {
  const auto check_id = [&](const char* name, int32_t id) {
    if (id >= 0 && id < vocab_size) return;
    throw_error(ErrorCode::kUsage, "{} is {}, but the vocabulary of the model has the ids 0 to {}", name, id,
                vocab_size - 1);
  };
  for (const int32_t id : settings.eos_token_ids) check_id("eos_token_id", id);
  if (settings.bos_token_id) check_id("bos_token_id", *settings.bos_token_id);
  if (settings.pad_token_id) check_id("pad_token_id", *settings.pad_token_id);
  const int64_t most = max_num_beams(settings, vocab_size);
  if (settings.beams.num_beams > 1 && settings.beams.num_beams > most) {
    throw_error(ErrorCode::kUsage,
                "num_beams is {}, but the vocabulary of the model has only {} tokens, which allow {} beams",
                settings.beams.num_beams, vocab_size, most);
  }
}

int64_t max_new_tokens(const GenerationSettings& settings, int64_t prompt_length, int64_t max_positions) {
  PLIMSOLL_CHECK(prompt_length >= 1 && max_positions >= 1);
  if (prompt_length >= max_positions) {
    throw_error(
        ErrorCode::kUsage,
        "the prompt has {} tokens and the model has {} positions, so no new token fits. Shorten the prompt.",
        prompt_length, max_positions);
  }
  const int64_t room = max_positions - prompt_length;
  if (const auto& wanted = settings.length.max_new_tokens) {
    if (*wanted <= room) return *wanted;
    throw_error(
        ErrorCode::kUsage,
        "max_new_tokens is {}, but after a prompt of {} tokens the model, which has {} positions, has room "
        "for {}. Shorten the prompt, or set max_new_tokens to at most {}.",
        *wanted, prompt_length, max_positions, room, room);
  }
  if (const auto& longest = settings.length.max_length) {
    if (*longest <= prompt_length) {
      throw_error(ErrorCode::kUsage,
                  "max_length is {}, which includes the prompt of {} tokens, so no new token is allowed. Set "
                  "max_new_tokens instead.",
                  *longest, prompt_length);
    }
    // The max_length in a model's file is often larger than the number of positions of the model. The text then ends at the last
    // position.
    return std::min(*longest - prompt_length, room);
  }
  return std::min(kDefaultNewTokens, room);
}

int64_t min_new_tokens(const GenerationSettings& settings, int64_t prompt_length) {
  if (settings.length.min_new_tokens) return *settings.length.min_new_tokens;
  return std::max<int64_t>(0, settings.length.min_length - prompt_length);
}

bool is_end_token(const GenerationSettings& settings, int32_t token) {
  return std::ranges::find(settings.eos_token_ids, token) != settings.eos_token_ids.end();
}

void read_generation_config(const nlohmann::json& json, std::string_view where,
                            GenerationSettings* settings) {
  if (!json.is_object()) throw_error(ErrorCode::kBadData, "{}: it must contain a JSON object", where);
  const Reader reader(json, where);
  GenerationSettings read = *settings;
  reader.read_integer("max_new_tokens", &read.length.max_new_tokens);
  reader.read_integer("max_length", &read.length.max_length);
  reader.read_integer("min_new_tokens", &read.length.min_new_tokens);
  reader.read_integer("min_length", &read.length.min_length);
  reader.read_flag("do_sample", &read.sampling.do_sample);
  reader.read_number("temperature", &read.sampling.temperature);
  reader.read_integer("top_k", &read.sampling.top_k);
  reader.read_number("top_p", &read.sampling.top_p);
  reader.read_number("min_p", &read.sampling.min_p);
  reader.read_number("repetition_penalty", &read.repetition_penalty);
  reader.read_integer("no_repeat_ngram_size", &read.no_repeat_ngram_size);
  reader.read_integer("num_beams", &read.beams.num_beams);
  reader.read_number("length_penalty", &read.beams.length_penalty);
  reader.read_integer("num_return_sequences", &read.num_return_sequences);
  reader.read_token("bos_token_id", &read.bos_token_id);
  // Some files state -1 for pad_token_id, which is not a token. It is accepted, because transformers uses this id only for padding.
  const Json* pad = reader.find("pad_token_id");
  if (pad == nullptr || *pad != -1) reader.read_token("pad_token_id", &read.pad_token_id);
  read_lists(reader, &read);
  refuse_missing_features(reader, where);
  try {
    check_generation_settings(read);
  } catch (const Error& error) {
    throw Error(ErrorCode::kBadData, std::string(where) + ": " + error.what());
  }
  *settings = std::move(read);
}

std::vector<std::string> known_generation_keys() {
  std::vector<std::string> keys(std::begin(kReadKeys), std::end(kReadKeys));
  keys.insert(keys.end(), std::begin(kKeysWithoutEffect), std::end(kKeysWithoutEffect));
  for (const RefusedKey& key : refused_keys()) keys.emplace_back(key.name);
  std::ranges::sort(keys);
  return keys;
}

}  // namespace plimsoll
