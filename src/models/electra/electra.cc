// ELECTRA's discriminator (Clark et al., arXiv 2003.10555): BERT's encoder, whose embeddings may be narrower
// than its hidden states; `embeddings_project` then widens them. Head for sequences: the first token through
// dropout, linear, GELU, dropout, linear; the activation is GELU whatever hidden_act says, and there is no
// pooler.
//
// The keys summary_type, summary_use_proj, summary_activation and summary_last_dropout of config.json belong
// to transformers' head for multiple choice. They do not change this head and are saved as they were read.
#include <array>

#include "base/check.h"
#include "models/architecture.h"
#include "models/blocks/encoder_layer.h"
#include "models/blocks/weight_specs.h"
#include "models/config_reader.h"

namespace plimsoll {
namespace {

constexpr const char* kProjection = "embeddings_project";

const std::vector<std::string>& disk_prefixes() {
  static const std::vector<std::string> prefixes{"electra.", ""};
  return prefixes;
}

bool has_projection(const ModelConfig& config) {
  return config.embedding_width() != config.hidden_size;
}

void add_encoder_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_embedding_specs(specs, config, disk_prefixes());
  if (has_projection(config))
    add_linear_specs(specs, kProjection, config.hidden_size, config.embedding_width(), disk_prefixes());
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    add_layer_specs(specs, config, bert_layer_prefix(i), bert_layer_names(), disk_prefixes());
}

ValueId build_encoder(ModelBuilder& builder) {
  ValueId x = build_embeddings(builder);
  if (has_projection(builder.config())) {
    builder.graph().set_module(kProjection);
    x = builder.linear(x, kProjection);
  }
  return build_bert_layers(builder, x);
}

ValueId build_head(ModelBuilder& builder, ValueId x) {
  return build_dense_head(builder, x, gelu_op());
}

void refuse_variants(const ConfigReader& reader) {
  refuse_encoder_variants(reader);
  int64_t embedding_size = 1;
  reader.read(embedding_size, "embedding_size");
  if (embedding_size >= 1) return;
  throw_error(ErrorCode::kBadData, "{}: embedding_size is {}, it must be at least 1; correct the value",
              reader.where(), embedding_size);
}

constexpr std::array kKeys{
    ConfigKey{"max_position_embeddings", &ModelConfig::max_position_embeddings},
    ConfigKey{"embedding_size", &ModelConfig::embedding_size},
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

constexpr std::array kPresets{
    Preset{"electra-small-discriminator", "google", 30522, 256, 12, 4, 1024, 128},
    Preset{"electra-base-discriminator", "google", 30522, 768, 12, 12, 3072, 768},
    Preset{"electra-large-discriminator", "google", 30522, 1024, 24, 16, 4096, 1024},
};

constexpr std::array<std::string_view, 2> kLoraTargets{"query", "value"};

// Sets transformers' defaults, which are the sizes of ELECTRA-small.
void set_defaults(ModelConfig& config) {
  config.embedding_size = 128;
  config.hidden_size = 256;
  config.num_attention_heads = 4;
  config.intermediate_size = 1024;
}

constexpr MaskedHeadNames kMaskedHead{.dense = "generator_predictions.dense",
                                      .norm = "generator_predictions.LayerNorm",
                                      .decoder = "generator_lm_head"};
constexpr std::array<std::string_view, 1> kIgnored{"generator_lm_head.weight"};

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

}  // namespace

const Architecture& electra_architecture() {
  static const Architecture record{.model_type = "electra",
                                   .class_prefix = "Electra",
                                   .config_keys = kKeys,
                                   .set_defaults = set_defaults,
                                   .refuse_variants = refuse_variants,
                                   .has_token_types = true,
                                   .add_encoder_weights = add_encoder_weights,
                                   .build_encoder = build_encoder,
                                   .heads = kHeads,
                                   .presets = kPresets,
                                   .lora_targets = kLoraTargets,
                                   .ignored_on_disk = kIgnored};
  return record;
}

}  // namespace plimsoll
