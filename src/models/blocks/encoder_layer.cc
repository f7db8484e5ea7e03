#include "models/blocks/encoder_layer.h"

#include <array>
#include <string_view>
#include <utility>

#include "graph/ops/activation_op.h"
#include "models/blocks/weight_specs.h"

namespace plimsoll {
namespace {

constexpr const char* kEmbeddings = "embeddings";

bool has_token_types(const ModelConfig& config) {
  return architecture_of(config.model_type).has_token_types;
}

}  // namespace

const LayerNames& bert_layer_names() {
  static const LayerNames names{.query = "attention.self.query",
                                .key = "attention.self.key",
                                .value = "attention.self.value",
                                .attention_output = "attention.output.dense",
                                .attention_norm = "attention.output.LayerNorm",
                                .intermediate = "intermediate.dense",
                                .output = "output.dense",
                                .output_norm = "output.LayerNorm"};
  return names;
}

std::string bert_layer_prefix(int64_t layer) {
  return "encoder.layer." + std::to_string(layer);
}

void add_embedding_specs(std::vector<WeightSpec>& specs, const ModelConfig& config,
                         const std::vector<std::string>& disk_prefixes) {
  const int64_t width = config.embedding_width();
  const std::string prefix = kEmbeddings;
  add_table_spec(specs, prefix + ".word_embeddings", config.vocab_size, width, disk_prefixes,
                 config.pad_token_id);
  add_table_spec(specs, prefix + ".position_embeddings", config.max_position_embeddings, width, disk_prefixes,
                 position_padding_id(config));
  if (has_token_types(config)) {
    add_table_spec(specs, prefix + ".token_type_embeddings", config.type_vocab_size, width, disk_prefixes);
  }
  add_norm_specs(specs, prefix + ".LayerNorm", width, disk_prefixes);
}

ValueId build_embeddings(ModelBuilder& builder) {
  const ModelConfig& config = builder.config();
  const std::string prefix = kEmbeddings;
  Graph& graph = builder.graph();
  graph.set_module(prefix);
  const ValueId ids = builder.table_rows("ids", config.vocab_size);
  const ValueId positions = builder.positions();
  std::vector<ValueId> inputs{builder.cu_seqlens(), ids, builder.weight(prefix + ".word_embeddings.weight"),
                              positions, builder.weight(prefix + ".position_embeddings.weight")};
  if (has_token_types(config)) {
    inputs.push_back(builder.table_rows("token_types", config.type_vocab_size));
    inputs.push_back(builder.weight(prefix + ".token_type_embeddings.weight"));
  }
  const ValueId sum = emit(
      graph, embedding_sum_op(), std::move(inputs),
      {{"padding_id", config.pad_token_id}, {"padding_id_1", position_padding_id(config)}}, prefix + ".sum");
  return builder.dropout(builder.norm(sum, prefix + ".LayerNorm"), config.hidden_dropout_prob);
}

void add_layer_specs(std::vector<WeightSpec>& specs, const ModelConfig& config, const std::string& prefix,
                     const LayerNames& names, const std::vector<std::string>& disk_prefixes) {
  const int64_t width = config.hidden_size;
  const auto part = [&](const std::string& name) { return PackedModule{prefix + "." + name, width}; };
  add_packed_specs(specs, prefix + ".attention.qkv", {part(names.query), part(names.key), part(names.value)},
                   width, LinearBias::kYes, disk_prefixes);
  add_linear_specs(specs, prefix + "." + names.attention_output, width, width, disk_prefixes);
  add_norm_specs(specs, prefix + "." + names.attention_norm, width, disk_prefixes);
  add_linear_specs(specs, prefix + "." + names.intermediate, config.intermediate_size, width, disk_prefixes);
  add_linear_specs(specs, prefix + "." + names.output, width, config.intermediate_size, disk_prefixes);
  add_norm_specs(specs, prefix + "." + names.output_norm, width, disk_prefixes);
}

ValueId build_layer(ModelBuilder& builder, ValueId x, const std::string& prefix, const LayerNames& names,
                    AttentionOutputDropout attention_output_dropout) {
  Graph& graph = builder.graph();
  const double p = builder.config().hidden_dropout_prob;
  graph.set_module(prefix + ".attention");
  const ValueId attended = builder.attention(builder.linear(x, prefix + ".attention.qkv"),
                                             AttentionDirection::kBoth, prefix + ".attention.context");
  ValueId branch = builder.linear(attended, prefix + "." + names.attention_output);
  if (attention_output_dropout == AttentionOutputDropout::kYes) branch = builder.dropout(branch, p);
  x = builder.norm(emit(graph, add_op(), {x, branch}, {}, "residual"), prefix + "." + names.attention_norm);
  graph.set_module(prefix + ".feed_forward");
  const ValueId hidden = builder.linear(x, prefix + "." + names.intermediate);
  const ValueId activated =
      emit(graph, gelu_op(), {hidden}, activation_attributes(builder.activation()), prefix + ".gelu");
  branch = builder.dropout(builder.linear(activated, prefix + "." + names.output), p);
  return builder.norm(emit(graph, add_op(), {x, branch}, {}, "residual"), prefix + "." + names.output_norm);
}

std::span<const ConfigKey> bert_config_keys() {
  static constexpr std::array kKeys{
      ConfigKey{"max_position_embeddings", &ModelConfig::max_position_embeddings},
      ConfigKey{"hidden_size", &ModelConfig::hidden_size},
      ConfigKey{"num_hidden_layers", &ModelConfig::num_hidden_layers},
      ConfigKey{"num_attention_heads", &ModelConfig::num_attention_heads},
      ConfigKey{"intermediate_size", &ModelConfig::intermediate_size},
      ConfigKey{"hidden_act", &ModelConfig::hidden_act},
      ConfigKey{"hidden_dropout_prob", &ModelConfig::hidden_dropout_prob},
      ConfigKey{"attention_probs_dropout_prob", &ModelConfig::attention_probs_dropout_prob},
      ConfigKey{"type_vocab_size", &ModelConfig::type_vocab_size},
      ConfigKey{"layer_norm_eps", &ModelConfig::layer_norm_eps},
      ConfigKey{"classifier_dropout", &ModelConfig::classifier_dropout},
      ConfigKey{"tie_word_embeddings", &ModelConfig::tie_word_embeddings},
  };
  return kKeys;
}

void add_bert_encoder_specs(std::vector<WeightSpec>& specs, const ModelConfig& config,
                            const std::vector<std::string>& disk_prefixes) {
  add_embedding_specs(specs, config, disk_prefixes);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    add_layer_specs(specs, config, bert_layer_prefix(i), bert_layer_names(), disk_prefixes);
}

ValueId build_bert_layers(ModelBuilder& builder, ValueId x) {
  for (int64_t i = 0; i < builder.config().num_hidden_layers; ++i)
    x = build_layer(builder, x, bert_layer_prefix(i), bert_layer_names(), AttentionOutputDropout::kYes);
  return x;
}

ValueId build_bert_encoder(ModelBuilder& builder) {
  return build_bert_layers(builder, build_embeddings(builder));
}

void add_dense_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_linear_specs(specs, "classifier.dense", config.hidden_size, config.hidden_size, {""});
  add_linear_specs(specs, "classifier.out_proj", config.num_labels, config.hidden_size, {""});
}

ValueId build_dense_head(ModelBuilder& builder, ValueId x, const OpSchema& activation) {
  Graph& graph = builder.graph();
  graph.set_module("classifier");
  const ModelConfig& config = builder.config();
  const double p = config.classifier_dropout.value_or(config.hidden_dropout_prob);
  const ValueId first = builder.dropout(builder.first_token(x, "classifier.first_token"), p);
  const ValueId hidden = builder.linear(first, "classifier.dense");
  const ValueId activated =
      emit(graph, activation, {hidden}, {}, "classifier." + std::string(activation.name()));
  return builder.linear(builder.dropout(activated, p), "classifier.out_proj");
}

namespace {

std::string masked_bias_name(const MaskedHeadNames& names) {
  return std::string(names.decoder) + ".bias";
}

}  // namespace

void add_masked_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config,
                             const MaskedHeadNames& names) {
  const int64_t width = config.embedding_width();
  add_linear_specs(specs, names.dense, width, config.hidden_size, {""});
  add_norm_specs(specs, names.norm, width, {""});
  if (!config.tie_word_embeddings) add_table_spec(specs, names.decoder, config.vocab_size, width, {""});
  // A checkpoint may contain the bias of the head under two names. If the matrix is tied to the word table, transformers saves only
  // `names.bias`. Otherwise transformers 5 computes with "<decoder>.bias", and transformers 4 with `names.bias`.
  WeightPart bias{.disk_names = {masked_bias_name(names)}, .num_rows = config.vocab_size};
  if (names.bias != nullptr) {
    bias.disk_names.insert(config.tie_word_embeddings ? bias.disk_names.begin() : bias.disk_names.end(),
                           names.bias);
    if (!config.tie_word_embeddings) bias.copies = {names.bias};
  }
  specs.push_back({.name = masked_bias_name(names),
                   .shape = {config.vocab_size},
                   .initializer = Initializer::kZeros,
                   .decays = false,
                   .parts = {std::move(bias)}});
}

ValueId build_masked_head(ModelBuilder& builder, ValueId x, const MaskedHeadNames& names,
                          Activation activation) {
  Graph& graph = builder.graph();
  graph.set_module(names.dense);
  const ValueId hidden = builder.linear(x, names.dense);
  const ValueId activated = emit(graph, gelu_op(), {hidden}, activation_attributes(activation),
                                 std::string(names.dense) + ".activation");
  const ValueId normed = builder.norm(activated, names.norm);
  graph.set_module(names.decoder);
  const std::string table = builder.config().tie_word_embeddings
                                ? std::string(kEmbeddings) + ".word_embeddings"
                                : std::string(names.decoder);
  return emit_linear(graph, normed, builder.weight(table + ".weight"),
                     builder.weight(masked_bias_name(names)), names.decoder);
}

}  // namespace plimsoll
