#include "models/model.h"

#include <utility>

#include "models/architecture.h"
#include "models/blocks/model_builder.h"

namespace plimsoll {

std::vector<WeightSpec> model_weights(const ModelConfig& config) {
  const Architecture& architecture = architecture_of(config.model_type);
  std::vector<WeightSpec> specs;
  architecture.add_encoder_weights(specs, config);
  head_of(config).add_weights(specs, config);
  return specs;
}

std::vector<std::string> ignored_on_disk() {
  return {"position_ids"};
}

ForwardGraph build_forward(const ModelConfig& config, const ForwardOptions& options) {
  const Architecture& architecture = architecture_of(config.model_type);
  ModelBuilder builder(config, options, model_weights(config));
  const ValueId x = architecture.build_encoder(builder);
  const ValueId logits = head_of(config).build(builder, x);
  return std::move(builder).finish(logits);
}

}  // namespace plimsoll
