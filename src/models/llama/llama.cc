// The Llama family (Touvron et al., arXiv 2302.13971): decoders with rotary positions, root-mean-square norms before
// attention and feed-forward, grouped queries and a gated feed-forward layer. Mistral limits attention to a window, Qwen2 has
// biases on q, k and v, and Qwen3 normalizes the heads of q and k.
//
// Head for sequences: a linear layer without bias over the last token of each sequence. Head for tokens: dropout, linear. Head for language
// modelling: a matrix product with the word table, or with a separate matrix.
#include <array>

#include "graph/ops/activation_op.h"
#include "models/architecture.h"
#include "models/blocks/model_builder.h"
#include "models/blocks/weight_specs.h"
#include "models/llama/llama_config.h"
#include "models/llama/llama_gguf.h"

namespace plimsoll {
namespace {

constexpr const char* kWords = "embed_tokens";
constexpr const char* kLastNorm = "norm";
constexpr const char* kHead = "score";

const std::vector<std::string>& disk_prefixes() {
  static const std::vector<std::string> prefixes{"model.", ""};
  return prefixes;
}

// The names of the modules of one layer. The matrices of `qkv` and `gate_up` consist of the rows of several modules of a checkpoint.
struct Names {
  explicit Names(int64_t layer) : prefix("layers." + std::to_string(layer) + ".") {}
  std::string prefix;
  std::string attention_norm() const { return prefix + "input_layernorm"; }
  std::string attention() const { return prefix + "self_attn"; }
  std::string in_attention(const char* module) const { return attention() + "." + module; }
  std::string feed_forward_norm() const { return prefix + "post_attention_layernorm"; }
  std::string feed_forward() const { return prefix + "mlp"; }
  std::string in_feed_forward(const char* module) const { return feed_forward() + "." + module; }
};

LinearBias with_bias(bool bias) {
  return bias ? LinearBias::kYes : LinearBias::kNo;
}

void add_layer_weights(std::vector<WeightSpec>& specs, const ModelConfig& config, const Names& names) {
  const std::vector<std::string>& disk = disk_prefixes();
  const int64_t width = config.hidden_size, head = config.head_width();
  const int64_t q_rows = config.num_attention_heads * head, kv_rows = config.heads_of_keys() * head;
  add_gain_spec(specs, names.attention_norm(), width, disk);
  add_packed_specs(specs, names.in_attention("qkv"),
                   {{names.in_attention("q_proj"), q_rows},
                    {names.in_attention("k_proj"), kv_rows},
                    {names.in_attention("v_proj"), kv_rows}},
                   width, with_bias(config.qkv_bias), disk);
  if (config.head_norms) {
    add_gain_spec(specs, names.in_attention("q_norm"), head, disk);
    add_gain_spec(specs, names.in_attention("k_norm"), head, disk);
  }
  const std::string output = names.in_attention("o_proj"), down = names.in_feed_forward("down_proj");
  add_packed_specs(specs, output, {{output, width}}, q_rows, with_bias(config.output_bias), disk);
  add_gain_spec(specs, names.feed_forward_norm(), width, disk);
  add_packed_specs(specs, names.in_feed_forward("gate_up"),
                   {{names.in_feed_forward("gate_proj"), config.intermediate_size},
                    {names.in_feed_forward("up_proj"), config.intermediate_size}},
                   width, with_bias(config.mlp_bias), disk);
  add_packed_specs(specs, down, {{down, width}}, config.intermediate_size, with_bias(config.mlp_bias), disk);
}

void add_decoder_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_table_spec(specs, kWords, config.vocab_size, config.hidden_size, disk_prefixes(), config.pad_token_id);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) add_layer_weights(specs, config, Names(i));
  add_gain_spec(specs, kLastNorm, config.hidden_size, disk_prefixes());
}

ValueId build_layer(ModelBuilder& builder, ValueId x, int64_t layer) {
  const Names names(layer);
  const ModelConfig& config = builder.config();
  Graph& graph = builder.graph();
  graph.set_module(names.attention());
  ValueId qkv = builder.linear(builder.rms_norm(x, names.attention_norm()), names.in_attention("qkv"));
  if (config.head_norms) {
    qkv = builder.norm_of_heads(qkv, names.in_attention("q_norm"), names.in_attention("k_norm"),
                                names.in_attention("normalized"));
  }
  qkv = builder.rotate_heads(qkv, config.rope, names.in_attention("rotated"));
  const ValueId attended = builder.attention(qkv, AttentionDirection::kCausal, names.in_attention("context"),
                                             config.window_of(layer));
  x = emit(graph, add_op(), {x, builder.linear(attended, names.in_attention("o_proj"))}, {}, "residual");
  graph.set_module(names.feed_forward());
  const ValueId gate_up =
      builder.linear(builder.rms_norm(x, names.feed_forward_norm()), names.in_feed_forward("gate_up"));
  const ValueId gated = emit(graph, glu_op(), {gate_up}, activation_attributes(builder.activation()),
                             names.in_feed_forward("gated"));
  return emit(graph, add_op(), {x, builder.linear(gated, names.in_feed_forward("down_proj"))}, {},
              "residual");
}

ValueId build_decoder(ModelBuilder& builder) {
  const ModelConfig& config = builder.config();
  Graph& graph = builder.graph();
  graph.set_module(kWords);
  const ValueId ids = builder.table_rows("ids", config.vocab_size);
  ValueId x = emit(graph, embedding_sum_op(),
                   {builder.cu_seqlens(), ids, builder.weight(std::string(kWords) + ".weight")},
                   {{"padding_id", config.pad_token_id}}, "embeddings.sum");
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) x = build_layer(builder, x, i);
  graph.set_module(kLastNorm);
  return builder.rms_norm(x, kLastNorm);
}

void add_sequence_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_matrix_spec(specs, kHead, config.num_labels, config.hidden_size, {""});
}
ValueId build_sequence_head(ModelBuilder& builder, ValueId x) {
  builder.graph().set_module(kHead);
  return builder.linear(builder.last_token(x, "score.last_token"), kHead);
}

void add_token_score_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_linear_specs(specs, kHead, config.num_labels, config.hidden_size, {""});
}
ValueId build_token_score(ModelBuilder& builder, ValueId x) {
  builder.graph().set_module(kHead);
  return builder.linear(builder.dropout(x, builder.config().classifier_dropout.value_or(0.1)), kHead);
}

constexpr std::array<std::string_view, 2> kLoraTargets{"q_proj", "v_proj"};
constexpr std::array<std::string_view, 2> kIgnored{".rotary_emb.inv_freq", "lm_head.weight"};

constexpr std::array kHeads{
    Head{.kind = &kSequenceClassificationHead,
         .add_weights = add_sequence_head_weights,
         .build = build_sequence_head},
    Head{.kind = &kTokenClassificationHead,
         .add_weights = add_token_score_weights,
         .build = build_token_score},
    Head{.kind = &kCausalLmHead,
         .add_weights = add_language_head_weights,
         .build = [](ModelBuilder& builder, ValueId x) { return build_language_head(builder, x, kWords); }},
};

Architecture record_of_variant(std::string_view model_type, std::string_view class_prefix,
                               const LlamaVariant& variant, const GgufForm& gguf) {
  return {
      .model_type = model_type,
      .class_prefix = class_prefix,
      .config_keys = variant.keys,
      .set_defaults = variant.set_defaults,
      .refuse_variants = [](const ConfigReader&) {},  // does nothing: `complete` refuses unsupported variants
      .complete = variant.complete,
      .write_config = variant.write_config,
      .positions = Positions::kRotary,
      .add_encoder_weights = add_decoder_weights,
      .build_encoder = build_decoder,
      .heads = kHeads,
      .presets = variant.presets,
      .lora_targets = kLoraTargets,
      .ignored_on_disk = kIgnored,
      .gguf = &gguf};
}

}  // namespace

const Architecture& llama_architecture() {
  static const Architecture record = record_of_variant("llama", "Llama", llama_variant(), llama_gguf_form());
  return record;
}
const Architecture& mistral_architecture() {
  static const Architecture record =
      record_of_variant("mistral", "Mistral", mistral_variant(), llama_gguf_form());
  return record;
}
const Architecture& qwen2_architecture() {
  static const Architecture record = record_of_variant("qwen2", "Qwen2", qwen2_variant(), qwen2_gguf_form());
  return record;
}
const Architecture& qwen3_architecture() {
  static const Architecture record = record_of_variant("qwen3", "Qwen3", qwen3_variant(), qwen3_gguf_form());
  return record;
}

}  // namespace plimsoll
