// What BERT and DistilBERT share: the post-norm encoder layer over tokens laid end to end, and the
// classification losses.
#pragma once

#include "graph/ops/ops.h"
#include "models/model.h"

namespace plimsoll {

// The spellings of one layer's weights on disk, after the layer's prefix.
struct LayerNames {
  std::string query, key, value, attention_output, attention_norm, intermediate, output, output_norm;
};

// Builds graphs weight by weight; every weight is declared once in the graph when it is first used.
class EncoderBuilder {
 public:
  EncoderBuilder(const ModelConfig& config, const ForwardOptions& options, std::string_view graph_name);

  Graph& graph() { return graph_; }
  // Declares the weight of that name. Requires: it is one of model_weights(config).
  ValueId weight(const std::string& name);
  ValueId linear(ValueId x, const std::string& name) {
    return emit_linear(graph_, x, weight(name + ".weight"), weight(name + ".bias"), name);
  }
  ValueId norm(ValueId x, const std::string& name) {
    return emit_layer_norm(graph_, x, weight(name + ".weight"), weight(name + ".bias"),
                           config_.layer_norm_eps, name);
  }
  // A dropout site of its own; p is 0 when evaluating.
  ValueId dropout(ValueId x, double p);

  // x_TC -> x_TC: self-attention, feed-forward, each with residual and norm. `attention_output_dropout` is
  // off in DistilBERT.
  ValueId layer(ValueId x, const std::string& prefix, const LayerNames& names, bool attention_output_dropout);
  ValueId embeddings(const std::string& prefix, bool token_types);
  // Loss over logits_BK by problem type; marks logits and loss as outputs.
  ForwardGraph finish(ValueId logits) &&;

  ValueId cu_seqlens() const { return cu_seqlens_; }

 private:
  DropoutSpec next_dropout(double p);

  const ModelConfig& config_;
  ForwardOptions options_;
  Graph graph_;
  std::vector<WeightSpec> specs_;
  ValueId cu_seqlens_;
  ValueId rng_ = kNoValue;
  int64_t next_site_ = 0;
};

// The specs of one encoder layer and of a linear layer, for model_weights().
void add_linear_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t out, int64_t in,
                      const std::vector<std::string>& disk_prefixes);
void add_norm_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t width,
                    const std::vector<std::string>& disk_prefixes);
void add_layer_specs(std::vector<WeightSpec>& specs, const ModelConfig& config, const std::string& prefix,
                     const LayerNames& names, const std::vector<std::string>& disk_prefixes);
void add_table_spec(std::vector<WeightSpec>& specs, const std::string& name, int64_t rows, int64_t width,
                    const std::vector<std::string>& disk_prefixes, int64_t zero_row = -1);

}  // namespace plimsoll
