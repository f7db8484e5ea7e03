// BERT for sequence classification (Devlin et al., arXiv 1810.04805): pooled first token, dropout, linear.
#pragma once

#include "models/model.h"

namespace plimsoll {

std::vector<WeightSpec> bert_weights(const ModelConfig& config);
ForwardGraph build_bert(const ModelConfig& config, const ForwardOptions& options);

}  // namespace plimsoll
