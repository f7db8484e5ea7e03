#include "models/blocks/model_builder.h"

#include <cmath>
#include <utility>

#include "models/architecture.h"

namespace plimsoll {

ModelBuilder::ModelBuilder(const ModelConfig& config, const ForwardOptions& options,
                           std::vector<WeightSpec> specs)
    : config_(config),
      options_(options),
      graph_(options.mode == Mode::kTrain ? "train" : "evaluate"),
      specs_(std::move(specs)) {
  cu_seqlens_ = graph_.add_input("cu_seqlens", {DType::kI32, Shape{Dim(1, Symbol::kSequences, 1)}},
                                 {.content = InputContent::kSequenceStarts});
  const bool draws = config.hidden_dropout_prob > 0 || config.attention_probs_dropout_prob > 0 ||
                     config.embedding_dropout_prob.value_or(0.0) > 0 ||
                     config.classifier_dropout.value_or(0.0) > 0;
  if (options.mode == Mode::kTrain && draws) {
    rng_ = graph_.add_input("rng", {DType::kI64, Shape{2}}, {.source = InputSource::kRandom});
  }
}

ValueId ModelBuilder::weight(const std::string& name) {
  if (const ValueId id = graph_.find(name); id != kNoValue) return id;
  for (const WeightSpec& spec : specs_) {
    if (spec.name != name) continue;
    std::vector<Dim> dims(spec.shape.begin(), spec.shape.end());
    return graph_.add_value(name, {options_.dtype, Shape(std::span<const Dim>(dims))}, Storage::kWeight);
  }
  PLIMSOLL_CHECK(false, "the model has no weight '{}'", name);
}

ValueId ModelBuilder::positions() {
  return graph_.add_input("positions", {DType::kI32, Shape{kDimT}},
                          {.content = InputContent::kTableRows,
                           .table_rows = config_.max_position_embeddings,
                           .position_padding_id = static_cast<int32_t>(position_padding_id(config_))});
}

ValueId ModelBuilder::attention(ValueId qkv, AttentionDirection direction, const std::string& name) {
  const int64_t head_width = config_.hidden_size / config_.num_attention_heads;
  const DropoutSpec dropout = next_dropout(config_.attention_probs_dropout_prob);
  return emit(graph_, attention_op(), {qkv, cu_seqlens_, dropout.p > 0 ? rng_ : kNoValue},
              {{"heads", config_.num_attention_heads},
               {"scale", 1.0 / std::sqrt(static_cast<double>(head_width))},
               {"causal", int64_t{direction == AttentionDirection::kCausal}},
               {"p", dropout.p},
               {"site", dropout.site},
               {"lse", int64_t{options_.mode == Mode::kTrain}}},
              name);
}

DropoutSpec ModelBuilder::next_dropout(double p) {
  return {.p = options_.mode == Mode::kTrain ? p : 0.0, .site = next_site_++};
}

ValueId ModelBuilder::dropout(ValueId x, double p) {
  return emit_dropout(graph_, x, rng_, next_dropout(p), "dropout");
}

ForwardGraph ModelBuilder::finish(ValueId logits) && {
  if (options_.mode == Mode::kEvaluate && options_.outputs_logits)
    graph_.value(logits).storage = Storage::kOutput;
  if (graph_.value(logits).name != "logits") graph_.rename(logits, "logits");
  return {std::move(graph_), kNoValue, logits};
}

}  // namespace plimsoll
