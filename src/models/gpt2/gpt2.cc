// GPT-2 (Radford et al., 2019): a decoder with learned positions, norms before attention and feed-forward, and one norm at
// the end. Checkpoints store the matrices of its linear layers transposed (Hugging Face's Conv1D).
//
// Head for sequences: a linear layer without bias over the last token of each sequence. Head for tokens: dropout, linear.
// Head for language modelling: a matrix product with the word table, or with a separate matrix if the weights are not tied.
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "models/architecture.h"
#include "models/blocks/decoder_layer.h"
#include "models/blocks/weight_specs.h"
#include "models/config_reader.h"
#include "models/gpt2/gpt2_gguf.h"

namespace plimsoll {
namespace {

constexpr const char* kWords = "wte";
constexpr const char* kPositions = "wpe";
constexpr const char* kLastNorm = "ln_f";

const std::vector<std::string>& disk_prefixes() {
  static const std::vector<std::string> prefixes{"transformer.", ""};
  return prefixes;
}

std::string layer_prefix(int64_t layer) {
  return "h." + std::to_string(layer);
}

const DecoderLayerNames& layer_names() {
  static const DecoderLayerNames names{.attention_norm = "ln_1",
                                       .qkv = "attn.c_attn",
                                       .attention_output = "attn.c_proj",
                                       .feed_forward_norm = "ln_2",
                                       .intermediate = "mlp.c_fc",
                                       .output = "mlp.c_proj"};
  return names;
}

void add_encoder_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_table_spec(specs, kWords, config.vocab_size, config.hidden_size, disk_prefixes());
  add_table_spec(specs, kPositions, config.max_position_embeddings, config.hidden_size, disk_prefixes());
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    add_decoder_layer_specs(specs, config, layer_prefix(i), layer_names(), disk_prefixes());
  add_norm_specs(specs, kLastNorm, config.hidden_size, disk_prefixes());
}

ValueId build_encoder(ModelBuilder& builder) {
  const ModelConfig& config = builder.config();
  Graph& graph = builder.graph();
  graph.set_module("embeddings");
  const ValueId ids = builder.table_rows("ids", config.vocab_size);
  const ValueId positions = builder.table_rows("positions", config.max_position_embeddings);
  const ValueId sum = emit(graph, embedding_sum_op(),
                           {builder.cu_seqlens(), ids, builder.weight(std::string(kWords) + ".weight"),
                            positions, builder.weight(std::string(kPositions) + ".weight")},
                           {{"padding_id", int64_t{-1}}}, "embeddings.sum");
  ValueId x = builder.dropout(sum, config.embedding_dropout_prob.value_or(config.hidden_dropout_prob));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    x = build_decoder_layer(builder, x, layer_prefix(i), layer_names());
  graph.set_module(kLastNorm);
  return builder.norm(x, kLastNorm);
}

void add_sequence_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_matrix_spec(specs, "score", config.num_labels, config.hidden_size, {""});
}

ValueId build_sequence_head(ModelBuilder& builder, ValueId x) {
  builder.graph().set_module("score");
  return emit(builder.graph(), matmul_op(),
              {builder.last_token(x, "score.last_token"), builder.weight("score.weight"), kNoValue, kNoValue,
               kNoValue},
              {{"ta", int64_t{0}}, {"tb", int64_t{1}}}, "logits");
}

// Refuses the keys of config.json that change the forward pass, unless they have the only value that is supported.
void refuse_variants(const ConfigReader& reader) {
  const std::pair<const char*, bool> flags[] = {{"scale_attn_weights", true},
                                                {"scale_attn_by_inverse_layer_idx", false},
                                                {"reorder_and_upcast_attn", false},
                                                {"add_cross_attention", false}};
  for (const auto& [key, wanted] : flags) {
    const nlohmann::json* value = reader.find(key);
    if (value == nullptr || *value == wanted) continue;
    throw_error(ErrorCode::kUsage, "{}: {} is {}; this version computes {} only", reader.where(), key,
                value->dump().substr(0, 40), wanted);
  }
}

// Sets the width of the feed-forward layer to four times that of the model unless n_inner states it, and the dropout of the embeddings to
// that of the layers unless embd_pdrop states it.
void complete(ModelConfig& config, const ConfigReader& reader) {
  config.intermediate_size = 4 * config.hidden_size;
  reader.read(config.intermediate_size, "n_inner");
  if (!config.embedding_dropout_prob) config.embedding_dropout_prob = config.hidden_dropout_prob;
}

// Writes two keys that other programs require: transformers refuses a configuration in which embd_pdrop is null,
// and llama.cpp's converter one without n_ctx.
void write_config(nlohmann::json& json, const ModelConfig& config) {
  json["n_ctx"] = config.max_position_embeddings;
  json["embd_pdrop"] = config.embedding_dropout_prob.value_or(config.hidden_dropout_prob);
}

// Sets transformers' defaults.
void set_defaults(ModelConfig& config) {
  config.hidden_act = "gelu_new";
  config.vocab_size = 50257;
  config.max_position_embeddings = 1024;
  config.pad_token_id = -1;
  config.layer_norm_eps = 1e-5;
  config.classifier_dropout = 0.1;  // only the head for token classification has this dropout
}

constexpr std::array kKeys{
    ConfigKey{"n_positions", &ModelConfig::max_position_embeddings},
    ConfigKey{"n_embd", &ModelConfig::hidden_size},
    ConfigKey{"n_layer", &ModelConfig::num_hidden_layers},
    ConfigKey{"n_head", &ModelConfig::num_attention_heads},
    ConfigKey{"activation_function", &ModelConfig::hidden_act},
    ConfigKey{"resid_pdrop", &ModelConfig::hidden_dropout_prob},
    ConfigKey{"embd_pdrop", &ModelConfig::embedding_dropout_prob},
    ConfigKey{"attn_pdrop", &ModelConfig::attention_probs_dropout_prob},
    ConfigKey{"layer_norm_epsilon", &ModelConfig::layer_norm_eps},
    ConfigKey{"classifier_dropout", &ModelConfig::classifier_dropout},
    ConfigKey{"tie_word_embeddings", &ModelConfig::tie_word_embeddings},
};

constexpr std::array kPresets{
    Preset{"gpt2", "openai-community", 50257, 768, 12, 12, 3072},
    Preset{"gpt2-medium", "openai-community", 50257, 1024, 24, 16, 4096},
    Preset{"gpt2-large", "openai-community", 50257, 1280, 36, 20, 5120},
    Preset{"gpt2-xl", "openai-community", 50257, 1600, 48, 25, 6400},
    Preset{"distilgpt2", "distilbert", 50257, 768, 6, 12, 3072},
};

constexpr std::array<std::string_view, 1> kLoraTargets{"c_attn"};
constexpr std::array<std::string_view, 3> kIgnored{".attn.bias", ".attn.masked_bias", "lm_head.weight"};

constexpr std::array kHeads{
    Head{.kind = &kSequenceClassificationHead,
         .add_weights = add_sequence_head_weights,
         .build = build_sequence_head},
    Head{.kind = &kTokenClassificationHead,
         .add_weights = add_token_head_weights,
         .build = [](ModelBuilder& builder, ValueId x) { return build_token_head(builder, x); }},
    Head{.kind = &kCausalLmHead,
         .add_weights = add_language_head_weights,
         .build = [](ModelBuilder& builder, ValueId x) { return build_language_head(builder, x, kWords); }},
};

}  // namespace

const Architecture& gpt2_architecture() {
  static const Architecture record{.model_type = "gpt2",
                                   .class_prefix = "GPT2",
                                   .has_old_class_names = true,
                                   .config_keys = kKeys,
                                   .set_defaults = set_defaults,
                                   .refuse_variants = refuse_variants,
                                   .complete = complete,
                                   .write_config = write_config,
                                   .types_are_words = true,
                                   .add_encoder_weights = add_encoder_weights,
                                   .build_encoder = build_encoder,
                                   .heads = kHeads,
                                   .presets = kPresets,
                                   .lora_targets = kLoraTargets,
                                   .ignored_on_disk = kIgnored,
                                   .stores_transposed = true,
                                   .gguf = &gpt2_gguf_form()};
  return record;
}

}  // namespace plimsoll
