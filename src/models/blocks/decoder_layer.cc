#include "models/blocks/decoder_layer.h"

#include <cmath>

#include "graph/ops/activation_op.h"
#include "models/blocks/weight_specs.h"

namespace plimsoll {
namespace {

// Adds a linear layer whose matrix a checkpoint stores transposed.
void add_transposed_linear_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t out,
                                 int64_t in, const std::vector<std::string>& disk_prefixes,
                                 double normal_scale = 1.0) {
  const size_t first = specs.size();
  add_linear_specs(specs, name, out, in, disk_prefixes);
  for (size_t i = first; i < specs.size(); ++i) {
    specs[i].transposed = specs[i].shape.size() == 2;
    specs[i].normal_scale = normal_scale;
  }
}

}  // namespace

void add_decoder_layer_specs(std::vector<WeightSpec>& specs, const ModelConfig& config,
                             const std::string& prefix, const DecoderLayerNames& names,
                             const std::vector<std::string>& disk_prefixes) {
  const int64_t width = config.hidden_size;
  const double residual_scale = 1.0 / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
  const auto named = [&](const std::string& name) { return prefix + "." + name; };
  add_norm_specs(specs, named(names.attention_norm), width, disk_prefixes);
  add_transposed_linear_specs(specs, named(names.qkv), 3 * width, width, disk_prefixes);
  add_transposed_linear_specs(specs, named(names.attention_output), width, width, disk_prefixes,
                              residual_scale);
  add_norm_specs(specs, named(names.feed_forward_norm), width, disk_prefixes);
  add_transposed_linear_specs(specs, named(names.intermediate), config.intermediate_size, width,
                              disk_prefixes);
  add_transposed_linear_specs(specs, named(names.output), width, config.intermediate_size, disk_prefixes,
                              residual_scale);
}

ValueId build_decoder_layer(ModelBuilder& builder, ValueId x, const std::string& prefix,
                            const DecoderLayerNames& names) {
  Graph& graph = builder.graph();
  const double p = builder.config().hidden_dropout_prob;
  const auto named = [&](const std::string& name) { return prefix + "." + name; };
  graph.set_module(named("attention"));
  const ValueId qkv = builder.linear(builder.norm(x, named(names.attention_norm)), named(names.qkv));
  const ValueId attended = builder.attention(qkv, AttentionDirection::kCausal, named("attention.context"));
  ValueId branch = builder.dropout(builder.linear(attended, named(names.attention_output)), p);
  x = emit(graph, add_op(), {x, branch}, {}, "residual");
  graph.set_module(named("feed_forward"));
  const ValueId hidden =
      builder.linear(builder.norm(x, named(names.feed_forward_norm)), named(names.intermediate));
  const ValueId activated =
      emit(graph, gelu_op(), {hidden}, activation_attributes(builder.activation()), named("gelu"));
  branch = builder.dropout(builder.linear(activated, named(names.output)), p);
  return emit(graph, add_op(), {x, branch}, {}, "residual");
}

}  // namespace plimsoll
