#include "models/encoder.h"

#include <cmath>

namespace plimsoll {
namespace {

std::vector<std::string> spelled(const std::vector<std::string>& disk_prefixes, const std::string& name) {
  std::vector<std::string> names;
  for (const std::string& prefix : disk_prefixes) {
    names.push_back(prefix + name);
    // Checkpoints converted from TensorFlow spell a norm's gain and bias gamma and beta.
    const size_t dot = name.rfind('.');
    if (name.find("LayerNorm.") != std::string::npos) {
      names.push_back(prefix + name.substr(0, dot) + (name.ends_with("weight") ? ".gamma" : ".beta"));
    }
  }
  return names;
}

}  // namespace

EncoderBuilder::EncoderBuilder(const ModelConfig& config, const ForwardOptions& options,
                               std::string_view graph_name)
    : config_(config), options_(options), graph_(std::string(graph_name)), specs_(model_weights(config)) {
  cu_seqlens_ =
      graph_.add_value("cu_seqlens", {DType::kI32, Shape{Dim(1, Symbol::kSequences, 1)}}, Storage::kInput);
  const bool draws = config.hidden_dropout_prob > 0 || config.attention_probs_dropout_prob > 0 ||
                     config.classifier_dropout.value_or(0.0) > 0;
  if (options.mode == Mode::kTrain && draws) {
    rng_ = graph_.add_value("rng", {DType::kI64, Shape{2}}, Storage::kInput);
  }
}

ValueId EncoderBuilder::weight(const std::string& name) {
  if (const ValueId id = graph_.find(name); id != kNoValue) return id;
  for (const WeightSpec& spec : specs_) {
    if (spec.name != name) continue;
    std::vector<Dim> dims(spec.shape.begin(), spec.shape.end());
    return graph_.add_value(name, {options_.dtype, Shape(std::span<const Dim>(dims))}, Storage::kWeight);
  }
  PLIMSOLL_CHECK(false, "the model has no weight '{}'", name);
}

DropoutSpec EncoderBuilder::next_dropout(double p) {
  return {.p = options_.mode == Mode::kTrain ? p : 0.0, .site = next_site_++};
}

ValueId EncoderBuilder::dropout(ValueId x, double p) {
  return emit_dropout(graph_, x, rng_, next_dropout(p), "dropout");
}

ValueId EncoderBuilder::embeddings(const std::string& prefix, bool token_types) {
  graph_.set_module(prefix);
  const ValueType row{DType::kI32, Shape{kDimT}};
  const ValueId ids = graph_.add_value("ids", row, Storage::kInput);
  const ValueId positions = graph_.add_value("positions", row, Storage::kInput);
  std::vector<ValueId> inputs{cu_seqlens_, ids, weight(prefix + ".word_embeddings.weight"), positions,
                              weight(prefix + ".position_embeddings.weight")};
  if (token_types) {
    inputs.push_back(graph_.add_value("token_types", row, Storage::kInput));
    inputs.push_back(weight(prefix + ".token_type_embeddings.weight"));
  }
  const ValueId sum = emit(graph_, embedding_sum_op(), std::move(inputs),
                           {{"padding_id", config_.pad_token_id}}, prefix + ".sum");
  return dropout(norm(sum, prefix + ".LayerNorm"), config_.hidden_dropout_prob);
}

ValueId EncoderBuilder::layer(ValueId x, const std::string& prefix, const LayerNames& names,
                              bool attention_output_dropout) {
  const double head_dim = static_cast<double>(config_.hidden_size / config_.num_attention_heads);
  graph_.set_module(prefix + ".attention");
  const ValueId qkv = linear(x, prefix + ".attention.qkv");
  const DropoutSpec attention_dropout = next_dropout(config_.attention_probs_dropout_prob);
  const ValueId attended =
      emit(graph_, attention_op(), {qkv, cu_seqlens_, attention_dropout.p > 0 ? rng_ : kNoValue},
           {{"heads", config_.num_attention_heads},
            {"scale", 1.0 / std::sqrt(head_dim)},
            {"causal", int64_t{0}},
            {"p", attention_dropout.p},
            {"site", attention_dropout.site},
            {"lse", int64_t{options_.mode == Mode::kTrain}}},
           prefix + ".attention.context");
  ValueId branch = linear(attended, prefix + "." + names.attention_output);
  if (attention_output_dropout) branch = dropout(branch, config_.hidden_dropout_prob);
  x = norm(emit(graph_, add_op(), {x, branch}, {}, "residual"), prefix + "." + names.attention_norm);
  graph_.set_module(prefix + ".feed_forward");
  const ValueId hidden = linear(x, prefix + "." + names.intermediate);
  const ValueId activated = emit(graph_, gelu_op(), {hidden}, {}, prefix + ".gelu");
  branch = dropout(linear(activated, prefix + "." + names.output), config_.hidden_dropout_prob);
  return norm(emit(graph_, add_op(), {x, branch}, {}, "residual"), prefix + "." + names.output_norm);
}

ForwardGraph EncoderBuilder::finish(ValueId logits) && {
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

void add_linear_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t out, int64_t in,
                      const std::vector<std::string>& disk_prefixes) {
  specs.push_back({name + ".weight",
                   {out, in},
                   Initializer::kNormal,
                   true,
                   {{spelled(disk_prefixes, name + ".weight"), 0, out}}});
  specs.push_back({name + ".bias",
                   {out},
                   Initializer::kZeros,
                   false,
                   {{spelled(disk_prefixes, name + ".bias"), 0, out}}});
}

void add_norm_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t width,
                    const std::vector<std::string>& disk_prefixes) {
  specs.push_back({name + ".weight",
                   {width},
                   Initializer::kOnes,
                   false,
                   {{spelled(disk_prefixes, name + ".weight"), 0, width}}});
  specs.push_back({name + ".bias",
                   {width},
                   Initializer::kZeros,
                   false,
                   {{spelled(disk_prefixes, name + ".bias"), 0, width}}});
}

void add_table_spec(std::vector<WeightSpec>& specs, const std::string& name, int64_t rows, int64_t width,
                    const std::vector<std::string>& disk_prefixes, int64_t zero_row) {
  specs.push_back({name + ".weight",
                   {rows, width},
                   Initializer::kNormal,
                   true,
                   {{spelled(disk_prefixes, name + ".weight"), 0, rows}},
                   zero_row});
}

void add_layer_specs(std::vector<WeightSpec>& specs, const ModelConfig& config, const std::string& prefix,
                     const LayerNames& names, const std::vector<std::string>& disk_prefixes) {
  const int64_t width = config.hidden_size;
  // One product computes q, k and v: their weights lie one after the other, the checkpoint's three tensors
  // are its parts.
  for (const char* kind : {".weight", ".bias"}) {
    const bool matrix = std::string_view(kind) == ".weight";
    WeightSpec spec{prefix + ".attention.qkv" + kind,
                    matrix ? std::vector<int64_t>{3 * width, width} : std::vector<int64_t>{3 * width},
                    matrix ? Initializer::kNormal : Initializer::kZeros,
                    matrix,
                    {}};
    int64_t row = 0;
    for (const std::string& part : {names.query, names.key, names.value}) {
      spec.parts.push_back({spelled(disk_prefixes, prefix + "." + part + kind), row, width});
      row += width;
    }
    specs.push_back(std::move(spec));
  }
  add_linear_specs(specs, prefix + "." + names.attention_output, width, width, disk_prefixes);
  add_norm_specs(specs, prefix + "." + names.attention_norm, width, disk_prefixes);
  add_linear_specs(specs, prefix + "." + names.intermediate, config.intermediate_size, width, disk_prefixes);
  add_linear_specs(specs, prefix + "." + names.output, width, config.intermediate_size, disk_prefixes);
  add_norm_specs(specs, prefix + "." + names.output_norm, width, disk_prefixes);
}

}  // namespace plimsoll
