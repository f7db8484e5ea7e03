// Builds a forward graph module by module. Every weight is declared once, when a module first reads it.
// Movable by finish() only; not thread-safe: one thread builds a graph.
#pragma once

#include <string>
#include <vector>

#include "base/activation.h"
#include "graph/ops/ops.h"
#include "models/model.h"

namespace plimsoll {

class ModelBuilder {
 public:
  // Declares the inputs that every model reads. Requires: `config` outlives the builder.
  ModelBuilder(const ModelConfig& config, const ForwardOptions& options, std::vector<WeightSpec> specs);

  const ModelConfig& config() const { return config_; }
  // The activation that the configuration names. Requires: the configuration was checked.
  Activation activation() const { return find_activation(config_.hidden_act).value(); }
  Mode mode() const { return options_.mode; }
  Graph& graph() { return graph_; }
  ValueId cu_seqlens() const { return cu_seqlens_; }
  ValueId rng() const { return rng_; }

  // Declares the weight of that name. Requires: it is one of the model's.
  ValueId weight(const std::string& name);
  ValueId linear(ValueId x, const std::string& name) {
    return emit_linear(graph_, x, weight(name + ".weight"), weight(name + ".bias"), name);
  }
  ValueId norm(ValueId x, const std::string& name) {
    return emit_layer_norm(graph_, x, weight(name + ".weight"), weight(name + ".bias"),
                           config_.layer_norm_eps, name);
  }
  ValueId first_token(ValueId x_TC, const std::string& name) {
    return emit(graph_, first_token_op(), {x_TC, cu_seqlens_}, {}, name);
  }
  ValueId dropout(ValueId x, double p);

  // Numbers a new dropout site, from which its random numbers derive. Its p is 0 in an evaluation.
  DropoutSpec next_dropout(double p);

  // Names the logits and returns the graph, which has no loss yet. Logits are an output of an evaluation.
  ForwardGraph finish(ValueId logits) &&;

 private:
  const ModelConfig& config_;
  ForwardOptions options_;
  Graph graph_;
  std::vector<WeightSpec> specs_;
  ValueId cu_seqlens_;
  ValueId rng_ = kNoValue;
  int64_t next_site_ = 0;
};

}  // namespace plimsoll
