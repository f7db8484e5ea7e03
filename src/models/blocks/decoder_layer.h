// The decoder layer of GPT-2: causal attention and feed-forward, each with its norm before it and a residual around both.
// Thread-safe: pure functions.
//
// Shape letters: T tokens, C hidden size.
#pragma once

#include <string>
#include <vector>

#include "models/blocks/model_builder.h"
#include "models/config.h"
#include "models/weight_spec.h"

namespace plimsoll {

// The names of one layer's modules on disk, after the layer's prefix. `qkv` is one module in a checkpoint.
struct DecoderLayerNames {
  std::string attention_norm, qkv, attention_output, feed_forward_norm, intermediate, output;
};

// Adds the weights of one layer. Matrices are stored transposed on disk. The initial standard deviation of matrices whose output is added
// to the residual is divided by sqrt(2 layers), as in GPT-2.
void add_decoder_layer_specs(std::vector<WeightSpec>& specs, const ModelConfig& config,
                             const std::string& prefix, const DecoderLayerNames& names,
                             const std::vector<std::string>& disk_prefixes);

// Builds one layer. x_TC -> x_TC.
ValueId build_decoder_layer(ModelBuilder& builder, ValueId x_TC, const std::string& prefix,
                            const DecoderLayerNames& names);

}  // namespace plimsoll
