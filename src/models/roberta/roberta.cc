// RoBERTa (Liu et al., arXiv 1907.11692), XLM-RoBERTa (Conneau et al., arXiv 1911.02116) and CamemBERT (Martin et al., arXiv
// 1911.03894): BERT's encoder, with positions that start after the id of the padding token. These three share one forward
// pass and the names of their weights on disk.
//
// Head for sequences: the first token through dropout, linear, tanh, dropout, linear; there is no pooler.
//
// With pad_token_id 1, max_position_embeddings 514 means texts of at most 512 tokens: no token has the position 0, and only
// padding tokens have the position 1. A padding token within a text (someone wrote "<pad>") has the position 1 too, and the positions of
// later tokens do not count it, because transformers computes positions from the ids.
#include <array>

#include "models/architecture.h"
#include "models/blocks/encoder_layer.h"
#include "models/blocks/weight_specs.h"
#include "models/config_reader.h"

namespace plimsoll {
namespace {

const std::vector<std::string>& disk_prefixes() {
  static const std::vector<std::string> prefixes{"roberta.", ""};
  return prefixes;
}

void add_encoder_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_bert_encoder_specs(specs, config, disk_prefixes());
}

ValueId build_head(ModelBuilder& builder, ValueId x) {
  return build_dense_head(builder, x, tanh_op());
}

// Sets the values that the published checkpoints state and that differ from transformers' defaults.
void adjust_preset(ModelConfig& config) {
  config.max_position_embeddings = 514;
  config.type_vocab_size = 1;
  config.layer_norm_eps = 1e-5;
}

constexpr std::array kRobertaPresets{
    Preset{"roberta-base", "FacebookAI", 50265, 768, 12, 12, 3072, 0, adjust_preset},
    Preset{"roberta-large", "FacebookAI", 50265, 1024, 24, 16, 4096, 0, adjust_preset},
    Preset{"distilroberta-base", "distilbert", 50265, 768, 6, 12, 3072, 0, adjust_preset},
};
constexpr std::array kXlmRobertaPresets{
    Preset{"xlm-roberta-base", "FacebookAI", 250002, 768, 12, 12, 3072, 0, adjust_preset},
    Preset{"xlm-roberta-large", "FacebookAI", 250002, 1024, 24, 16, 4096, 0, adjust_preset},
};
constexpr std::array kCamembertPresets{
    Preset{"camembert-base", "almanach", 32005, 768, 12, 12, 3072, 0, adjust_preset},
};

constexpr std::array<std::string_view, 2> kLoraTargets{"query", "value"};

constexpr MaskedHeadNames kMaskedHead{.dense = "lm_head.dense",
                                      .norm = "lm_head.layer_norm",
                                      .decoder = "lm_head.decoder",
                                      .bias = "lm_head.bias"};
constexpr std::array<std::string_view, 3> kIgnored{"lm_head.decoder.weight", "lm_head.decoder.bias",
                                                   "lm_head.bias"};

constexpr std::array kHeads{
    Head{.kind = &kSequenceClassificationHead, .add_weights = add_dense_head_weights, .build = build_head},
    Head{.kind = &kTokenClassificationHead,
         .add_weights = add_token_head_weights,
         .build = [](ModelBuilder& builder, ValueId x) { return build_token_head(builder, x); }},
    Head{
        .kind = &kMaskedLmHead,
        .add_weights = [](std::vector<WeightSpec>& specs,
                          const ModelConfig& config) { add_masked_head_weights(specs, config, kMaskedHead); },
        .build = [](ModelBuilder& builder,
                    ValueId x) { return build_masked_head(builder, x, kMaskedHead, Activation::kGelu); }},
};

Architecture record_of_family(std::string_view model_type, std::string_view class_prefix,
                              void (*set_defaults)(ModelConfig& config), std::span<const Preset> presets,
                              std::span<const std::string_view> lora_targets) {
  return {.model_type = model_type,
          .class_prefix = class_prefix,
          .config_keys = bert_config_keys(),
          .set_defaults = set_defaults,
          .refuse_variants = refuse_encoder_variants,
          .has_token_types = true,
          .positions = Positions::kLearnedAfterPadding,
          .add_encoder_weights = add_encoder_weights,
          .build_encoder = build_bert_encoder,
          .heads = kHeads,
          .presets = presets,
          .lora_targets = lora_targets,
          .ignored_on_disk = kIgnored};
}

}  // namespace

const Architecture& roberta_architecture() {
  static const Architecture record = record_of_family(
      "roberta", "Roberta",
      [](ModelConfig& config) {
        config.vocab_size = 50265;
        config.pad_token_id = 1;
      },
      kRobertaPresets, kLoraTargets);
  return record;
}

const Architecture& xlm_roberta_architecture() {
  static const Architecture record = record_of_family(
      "xlm-roberta", "XLMRoberta", [](ModelConfig& config) { config.pad_token_id = 1; }, kXlmRobertaPresets,
      kLoraTargets);
  return record;
}

const Architecture& camembert_architecture() {
  static const Architecture record = record_of_family(
      "camembert", "Camembert", [](ModelConfig& config) { config.pad_token_id = 1; }, kCamembertPresets, {});
  return record;
}

}  // namespace plimsoll
