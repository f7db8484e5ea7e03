#include "models/blocks/model_builder.h"

#include <utility>

namespace plimsoll {

ModelBuilder::ModelBuilder(const ModelConfig& config, const ForwardOptions& options,
                           std::vector<WeightSpec> specs)
    : config_(config),
      options_(options),
      graph_(options.mode == Mode::kTrain ? "train" : "evaluate"),
      specs_(std::move(specs)) {
  cu_seqlens_ =
      graph_.add_value("cu_seqlens", {DType::kI32, Shape{Dim(1, Symbol::kSequences, 1)}}, Storage::kInput);
  const bool draws = config.hidden_dropout_prob > 0 || config.attention_probs_dropout_prob > 0 ||
                     config.classifier_dropout.value_or(0.0) > 0;
  if (options.mode == Mode::kTrain && draws) {
    rng_ = graph_.add_value("rng", {DType::kI64, Shape{2}}, Storage::kInput);
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

DropoutSpec ModelBuilder::next_dropout(double p) {
  return {.p = options_.mode == Mode::kTrain ? p : 0.0, .site = next_site_++};
}

ValueId ModelBuilder::dropout(ValueId x, double p) {
  return emit_dropout(graph_, x, rng_, next_dropout(p), "dropout");
}

ForwardGraph ModelBuilder::finish(ValueId logits) && {
  graph_.set_module("loss");
  const DType scalar = options_.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const ValueId denominator = graph_.add_value("denominator", {scalar, Shape{1}}, Storage::kInput);
  ValueId loss = kNoValue;
  if (options_.problem_type == ProblemType::kSingleLabel) {
    const ValueId labels = graph_.add_value("labels", {DType::kI32, Shape{kDimB}}, Storage::kInput);
    const ValueId log_p = emit(graph_, log_softmax_op(), {logits}, {}, "log_p");
    loss = emit(graph_, nll_op(), {log_p, labels, denominator}, {{"smoothing", options_.label_smoothing}},
                "loss");
  } else {
    const ValueId labels =
        graph_.add_value("labels", {scalar, Shape{kDimB, config_.num_labels}}, Storage::kInput);
    const ValueId rows = graph_.add_value("num_sequences", {DType::kI32, Shape{1}}, Storage::kInput);
    const OpSchema& op = options_.problem_type == ProblemType::kRegression ? mse_op() : bce_with_logits_op();
    loss = emit(graph_, op, {logits, labels, denominator, rows}, {}, "loss");
  }
  graph_.value(loss).storage = Storage::kOutput;
  if (options_.mode == Mode::kEvaluate) graph_.value(logits).storage = Storage::kOutput;
  if (graph_.value(logits).name != "logits") graph_.rename(logits, "logits");
  return {std::move(graph_), loss, logits};
}

}  // namespace plimsoll
