// DistilBERT for sequence classification (Sanh et al., arXiv 1910.01108): no token types, no pooler; first
// token, linear, ReLU, dropout, linear.
#pragma once

#include "models/model.h"

namespace plimsoll {

std::vector<WeightSpec> distilbert_weights(const ModelConfig& config);
ForwardGraph build_distilbert(const ModelConfig& config, const ForwardOptions& options);

}  // namespace plimsoll
