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

// The names of the modules of one layer in a checkpoint, without the prefix of the layer. `qkv` is one module that computes q, k and v.
struct DecoderLayerNames {
  std::string attention_norm, qkv, attention_output, feed_forward_norm, intermediate, output;
};

// Adds the weights of one layer. Matrices are stored transposed on disk. The initial standard deviation of matrices whose output is added
// to the residual is divided by sqrt(2 layers), as in GPT-2.
void add_decoder_layer_specs(std::vector<WeightSpec>& specs, const ModelConfig& config,
                             const std::string& prefix, const DecoderLayerNames& names,
                             const std::vector<std::string>& disk_prefixes);

// Adds the ops of one layer to the graph. The input x_TC and the result have the shape [T, C].
ValueId build_decoder_layer(ModelBuilder& builder, ValueId x_TC, const std::string& prefix,
                            const DecoderLayerNames& names);

}  // namespace plimsoll
