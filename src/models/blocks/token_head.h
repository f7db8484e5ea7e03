// The head for token classification that BERT, DistilBERT and ELECTRA share: dropout, and a linear layer over the hidden
// state of every token.
#pragma once

#include <vector>

#include "graph/ir/graph.h"
#include "models/blocks/model_builder.h"
#include "models/blocks/weight_specs.h"
#include "models/config.h"

namespace plimsoll {

inline void add_token_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_linear_specs(specs, "classifier", config.num_labels, config.hidden_size, {""});
}

// x_TC -> logits_TK. `dropout`: the probability before the linear layer.
inline ValueId build_token_head(ModelBuilder& builder, ValueId x, double dropout) {
  builder.graph().set_module("classifier");
  return builder.linear(builder.dropout(x, dropout), "classifier");
}

}  // namespace plimsoll
