#include "models/model.h"

#include "models/bert.h"
#include "models/distilbert.h"

namespace plimsoll {

std::vector<WeightSpec> model_weights(const ModelConfig& config) {
  return config.model_type == "distilbert" ? distilbert_weights(config) : bert_weights(config);
}

ForwardGraph build_forward(const ModelConfig& config, const ForwardOptions& options) {
  return config.model_type == "distilbert" ? build_distilbert(config, options) : build_bert(config, options);
}

bool is_ignored_on_disk(std::string_view name) {
  return name.ends_with("position_ids");
}

}  // namespace plimsoll
