#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/problem_type.h"
#include "models/architecture.h"
#include "models/blocks/model_builder.h"
#include "models/model.h"

namespace plimsoll {

#define PLIMSOLL_ARCHITECTURE(function) const Architecture& function();
#include "models/architectures.inc"
#undef PLIMSOLL_ARCHITECTURE

std::span<const Architecture* const> architectures() {
#define PLIMSOLL_ARCHITECTURE(function) &function(),
  static const std::array all{
#include "models/architectures.inc"
  };
#undef PLIMSOLL_ARCHITECTURE
  return all;
}

const Architecture* find_architecture(std::string_view model_type) {
  const auto all = architectures();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Architecture* architecture) {
    return architecture->model_type == model_type;
  });
  return found == all.end() ? nullptr : *found;
}

const Architecture& architecture_of(std::string_view model_type) {
  const Architecture* architecture = find_architecture(model_type);
  PLIMSOLL_CHECK(architecture != nullptr, "no architecture of this program has the model_type '{}'",
                 model_type);
  return *architecture;
}

int64_t position_padding_id(const ModelConfig& config) {
  const bool follow = architecture_of(config.model_type).positions == Positions::kLearnedAfterPadding;
  return follow ? config.pad_token_id : -1;
}

bool depends_on_left_padding(const ModelConfig& config) {
  return architecture_of(config.model_type).positions == Positions::kLearned;
}

int64_t num_token_types(const ModelConfig& config) {
  return architecture_of(config.model_type).has_token_types ? config.type_vocab_size : 0;
}

int64_t max_sequence_length(const ModelConfig& config) {
  return config.max_position_embeddings - (position_padding_id(config) + 1);
}

namespace {

const HeadKind& head_kind_of(const ModelConfig& config) {
  return *record_of(config.problem_type.value_or(ProblemType::kSingleLabel)).head;
}

}  // namespace

const Head& head_of(const ModelConfig& config) {
  const Architecture& architecture = architecture_of(config.model_type);
  const HeadKind& kind = head_kind_of(config);
  const auto found = std::ranges::find(architecture.heads, &kind, &Head::kind);
  if (found != architecture.heads.end()) return *found;
  std::vector<std::string_view> others;
  for (const Architecture* other : architectures()) {
    if (std::ranges::find(other->heads, &kind, &Head::kind) != other->heads.end())
      others.push_back(other->model_type);
  }
  throw_error(ErrorCode::kUsage, "a model of type '{}' has no head for {}; use a model of type {}",
              config.model_type, kind.description, fmt::join(others, ", "));
}

std::string hugging_face_class(const ModelConfig& config) {
  const Architecture& architecture = architecture_of(config.model_type);
  const HeadKind& kind = head_kind_of(config);
  std::string name(architecture.class_prefix);
  const bool is_old = architecture.has_old_class_names && !kind.old_suffix.empty();
  return name.append(is_old ? kind.old_suffix : kind.class_suffix);
}

std::vector<WeightSpec> model_weights(const ModelConfig& config) {
  const Architecture& architecture = architecture_of(config.model_type);
  std::vector<WeightSpec> specs;
  architecture.add_encoder_weights(specs, config);
  head_of(config).add_weights(specs, config);
  return specs;
}

std::vector<std::string> ignored_on_disk(const ModelConfig& config) {
  std::vector<std::string> endings{"position_ids"};
  for (const std::string_view ending : architecture_of(config.model_type).ignored_on_disk)
    endings.emplace_back(ending);
  return endings;
}

ForwardGraph build_forward(const ModelConfig& config, const ForwardOptions& options) {
  return build_forward(config, options, model_weights(config));
}

ForwardGraph build_forward(const ModelConfig& config, const ForwardOptions& options,
                           std::span<const WeightSpec> weights) {
  const Architecture& architecture = architecture_of(config.model_type);
  ModelBuilder builder(config, options, weights);
  ValueId x = architecture.build_encoder(builder);
  if (options.cache) {
    builder.graph().set_module("last_token");
    x = builder.last_token(x, "last_token");
  }
  if (options.head_rows == HeadRows::kLabelled) {
    builder.graph().set_module("labelled_rows");
    x = builder.labelled_rows(x, "labelled_rows");
  }
  const ValueId logits = head_of(config).build(builder, x);
  return std::move(builder).finish(logits);
}

namespace {

ModelConfig config_of(const Architecture& architecture, const Preset& preset) {
  ModelConfig config;
  config.model_type = architecture.model_type;
  architecture.set_defaults(config);
  config.vocab_size = preset.vocab_size;
  config.hidden_size = preset.hidden_size;
  config.num_hidden_layers = preset.layers;
  config.num_attention_heads = preset.heads;
  config.intermediate_size = preset.intermediate_size;
  config.embedding_size = preset.embedding_size;
  if (preset.adjust != nullptr) preset.adjust(config);
  return config;
}

}  // namespace

std::optional<ModelConfig> find_preset(std::string_view name) {
  for (const Architecture* architecture : architectures()) {
    for (const Preset& preset : architecture->presets) {
      const std::string full_name = std::string(preset.organisation) + "/" + std::string(preset.name);
      if (name == preset.name || name == full_name) return config_of(*architecture, preset);
    }
  }
  return std::nullopt;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Architecture* architecture : architectures()) {
    for (const Preset& preset : architecture->presets) names.emplace_back(preset.name);
  }
  return names;
}

}  // namespace plimsoll
