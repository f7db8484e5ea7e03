// BERT (Devlin et al., arXiv 1810.04805). Its head for sequences applies the pooler (linear, tanh), dropout and a linear layer to the first
// token of each sequence.
#include <array>

#include "models/architecture.h"
#include "models/blocks/encoder_layer.h"
#include "models/blocks/weight_specs.h"
#include "models/config_reader.h"

namespace plimsoll {
namespace {

const std::vector<std::string>& disk_prefixes() {
  static const std::vector<std::string> prefixes{"bert.", ""};
  return prefixes;
}

void add_encoder_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_bert_encoder_specs(specs, config, disk_prefixes());
}

void add_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_linear_specs(specs, "pooler.dense", config.hidden_size, config.hidden_size, disk_prefixes());
  add_linear_specs(specs, "classifier", config.num_labels, config.hidden_size, {""});
}

ValueId build_head(ModelBuilder& builder, ValueId x) {
  Graph& graph = builder.graph();
  graph.set_module("pooler");
  const ValueId first = builder.first_token(x, "pooler.first_token");
  const ValueId pooled = emit(graph, tanh_op(), {builder.linear(first, "pooler.dense")}, {}, "pooler.output");
  graph.set_module("classifier");
  const ModelConfig& config = builder.config();
  const double p = config.classifier_dropout.value_or(config.hidden_dropout_prob);
  return builder.linear(builder.dropout(pooled, p), "classifier");
}

constexpr std::array kPresets{
    Preset{"bert-base-uncased", "google-bert", 30522, 768, 12, 12, 3072},
    Preset{"bert-base-cased", "google-bert", 28996, 768, 12, 12, 3072},
    Preset{"bert-large-uncased", "google-bert", 30522, 1024, 24, 16, 4096},
    Preset{"bert-large-cased", "google-bert", 28996, 1024, 24, 16, 4096},
    Preset{"all-MiniLM-L6-v2", "sentence-transformers", 30522, 384, 6, 12, 1536},
    Preset{"MiniLM-L6-H384-uncased", "nreimers", 30522, 384, 6, 12, 1536},
    Preset{"MiniLM-L12-H384-uncased", "microsoft", 30522, 384, 12, 12, 1536},
};

constexpr std::array<std::string_view, 2> kLoraTargets{"query", "value"};

constexpr MaskedHeadNames kMaskedHead{.dense = "cls.predictions.transform.dense",
                                      .norm = "cls.predictions.transform.LayerNorm",
                                      .decoder = "cls.predictions.decoder",
                                      .bias = "cls.predictions.bias"};
constexpr std::array<std::string_view, 3> kIgnored{"cls.predictions.decoder.weight",
                                                   "cls.predictions.decoder.bias", "cls.predictions.bias"};

constexpr std::array kHeads{
    Head{.kind = &kSequenceClassificationHead, .add_weights = add_head_weights, .build = build_head},
    Head{.kind = &kTokenClassificationHead,
         .add_weights = add_token_head_weights,
         .build = [](ModelBuilder& builder, ValueId x) { return build_token_head(builder, x); }},
    Head{
        .kind = &kMaskedLmHead,
        .add_weights = [](std::vector<WeightSpec>& specs,
                          const ModelConfig& config) { add_masked_head_weights(specs, config, kMaskedHead); },
        .build = [](ModelBuilder& builder,
                    ValueId x) { return build_masked_head(builder, x, kMaskedHead, builder.activation()); }},
};

}  // namespace

const Architecture& bert_architecture() {
  static const Architecture record{.model_type = "bert",
                                   .class_prefix = "Bert",
                                   .config_keys = bert_config_keys(),
                                   .set_defaults = [](ModelConfig&) {},
                                   .refuse_variants = refuse_encoder_variants,
                                   .has_token_types = true,
                                   .add_encoder_weights = add_encoder_weights,
                                   .build_encoder = build_bert_encoder,
                                   .heads = kHeads,
                                   .presets = kPresets,
                                   .lora_targets = kLoraTargets,
                                   .ignored_on_disk = kIgnored};
  return record;
}

}  // namespace plimsoll
