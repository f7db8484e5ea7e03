// DistilBERT (Sanh et al., arXiv 1910.01108). It has no token types and no pooler. Head for sequences: the
// first token through linear, ReLU, dropout, linear.
#include <array>

#include "models/architecture.h"
#include "models/blocks/encoder_layer.h"
#include "models/blocks/weight_specs.h"
#include "models/config_reader.h"

namespace plimsoll {
namespace {

// The default of the key seq_classif_dropout of config.json, as in transformers.
constexpr double kClassifierDropout = 0.2;

const LayerNames kNames{.query = "attention.q_lin",
                        .key = "attention.k_lin",
                        .value = "attention.v_lin",
                        .attention_output = "attention.out_lin",
                        .attention_norm = "sa_layer_norm",
                        .intermediate = "ffn.lin1",
                        .output = "ffn.lin2",
                        .output_norm = "output_layer_norm"};

std::string layer_prefix(int64_t i) {
  return "transformer.layer." + std::to_string(i);
}

void add_encoder_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  const std::vector<std::string> disk_prefixes{"distilbert.", ""};
  add_embedding_specs(specs, config, disk_prefixes);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    add_layer_specs(specs, config, layer_prefix(i), kNames, disk_prefixes);
}

ValueId build_encoder(ModelBuilder& builder) {
  ValueId x = build_embeddings(builder);
  for (int64_t i = 0; i < builder.config().num_hidden_layers; ++i)
    x = build_layer(builder, x, layer_prefix(i), kNames, AttentionOutputDropout::kNo);
  return x;
}

void add_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_linear_specs(specs, "pre_classifier", config.hidden_size, config.hidden_size, {""});
  add_linear_specs(specs, "classifier", config.num_labels, config.hidden_size, {""});
}

ValueId build_head(ModelBuilder& builder, ValueId x) {
  Graph& graph = builder.graph();
  graph.set_module("classifier");
  const ValueId first = builder.first_token(x, "first_token");
  const ValueId hidden =
      emit(graph, relu_op(), {builder.linear(first, "pre_classifier")}, {}, "pre_classifier.output");
  const double p = builder.config().classifier_dropout.value_or(kClassifierDropout);
  return builder.linear(builder.dropout(hidden, p), "classifier");
}

constexpr std::array kKeys{
    ConfigKey{"max_position_embeddings", &ModelConfig::max_position_embeddings},
    ConfigKey{"dim", &ModelConfig::hidden_size},
    ConfigKey{"n_layers", &ModelConfig::num_hidden_layers},
    ConfigKey{"n_heads", &ModelConfig::num_attention_heads},
    ConfigKey{"hidden_dim", &ModelConfig::intermediate_size},
    ConfigKey{"activation", &ModelConfig::hidden_act},
    ConfigKey{"dropout", &ModelConfig::hidden_dropout_prob},
    ConfigKey{"attention_dropout", &ModelConfig::attention_probs_dropout_prob},
    ConfigKey{"seq_classif_dropout", &ModelConfig::classifier_dropout},
    ConfigKey{"tie_word_embeddings", &ModelConfig::tie_word_embeddings},
};

constexpr std::array kPresets{
    Preset{"distilbert-base-uncased", "distilbert", 30522, 768, 6, 12, 3072},
    Preset{"distilbert-base-cased", "distilbert", 28996, 768, 6, 12, 3072},
};

constexpr MaskedHeadNames kMaskedHead{
    .dense = "vocab_transform", .norm = "vocab_layer_norm", .decoder = "vocab_projector"};
constexpr std::array<std::string_view, 1> kIgnored{"vocab_projector.weight"};

constexpr std::array kHeads{
    Head{.kind = &kSequenceClassificationHead, .add_weights = add_head_weights, .build = build_head},
    Head{.kind = &kTokenClassificationHead,
         .add_weights = add_token_head_weights,
         .build =
             [](ModelBuilder& builder, ValueId x) {
               const ModelConfig& config = builder.config();
               return build_token_head(builder, x, config.hidden_dropout_prob);
             }},
    Head{
        .kind = &kMaskedLmHead,
        .add_weights = [](std::vector<WeightSpec>& specs,
                          const ModelConfig& config) { add_masked_head_weights(specs, config, kMaskedHead); },
        .build = [](ModelBuilder& builder,
                    ValueId x) { return build_masked_head(builder, x, kMaskedHead, builder.activation()); }},
};

}  // namespace

const Architecture& distilbert_architecture() {
  static const Architecture record{.model_type = "distilbert",
                                   .class_prefix = "DistilBert",
                                   .config_keys = kKeys,
                                   .set_defaults =
                                       [](ModelConfig& config) {
                                         config.type_vocab_size = 0;
                                         config.classifier_dropout = kClassifierDropout;
                                       },
                                   .refuse_variants = refuse_encoder_variants,
                                   .has_token_types = false,
                                   .add_encoder_weights = add_encoder_weights,
                                   .build_encoder = build_encoder,
                                   .heads = kHeads,
                                   .presets = kPresets,
                                   .lora_targets = {},
                                   .ignored_on_disk = kIgnored};
  return record;
}

}  // namespace plimsoll
