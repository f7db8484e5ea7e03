#include "models/distilbert.h"

#include "models/encoder.h"

namespace plimsoll {
namespace {

const LayerNames kDistilBertNames{.query = "attention.q_lin",
                                  .key = "attention.k_lin",
                                  .value = "attention.v_lin",
                                  .attention_output = "attention.out_lin",
                                  .attention_norm = "sa_layer_norm",
                                  .intermediate = "ffn.lin1",
                                  .output = "ffn.lin2",
                                  .output_norm = "output_layer_norm"};

std::string distilbert_layer_prefix(int64_t i) {
  return "transformer.layer." + std::to_string(i);
}

}  // namespace

std::vector<WeightSpec> distilbert_weights(const ModelConfig& config) {
  const std::vector<std::string> prefixes{"distilbert.", ""};
  std::vector<WeightSpec> specs;
  add_table_spec(specs, "embeddings.word_embeddings", config.vocab_size, config.hidden_size, prefixes,
                 config.pad_token_id);
  add_table_spec(specs, "embeddings.position_embeddings", config.max_position_embeddings, config.hidden_size,
                 prefixes);
  add_norm_specs(specs, "embeddings.LayerNorm", config.hidden_size, prefixes);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    add_layer_specs(specs, config, distilbert_layer_prefix(i), kDistilBertNames, prefixes);
  }
  add_linear_specs(specs, "pre_classifier", config.hidden_size, config.hidden_size, {""});
  add_linear_specs(specs, "classifier", config.num_labels, config.hidden_size, {""});
  return specs;
}

ForwardGraph build_distilbert(const ModelConfig& config, const ForwardOptions& options) {
  EncoderBuilder builder(config, options, options.mode == Mode::kTrain ? "train" : "evaluate");
  Graph& graph = builder.graph();
  ValueId x = builder.embeddings("embeddings", false);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    x = builder.layer(x, distilbert_layer_prefix(i), kDistilBertNames, false);
  graph.set_module("classifier");
  const ValueId first = emit(graph, first_token_op(), {x, builder.cu_seqlens()}, {}, "first_token");
  const ValueId hidden =
      emit(graph, relu_op(), {builder.linear(first, "pre_classifier")}, {}, "pre_classifier.output");
  const ValueId logits =
      builder.linear(builder.dropout(hidden, config.classifier_dropout.value_or(0.2)), "classifier");
  return std::move(builder).finish(logits);
}

}  // namespace plimsoll
