#include "models/bert.h"

#include "models/encoder.h"

namespace plimsoll {
namespace {

const LayerNames kBertNames{.query = "attention.self.query",
                            .key = "attention.self.key",
                            .value = "attention.self.value",
                            .attention_output = "attention.output.dense",
                            .attention_norm = "attention.output.LayerNorm",
                            .intermediate = "intermediate.dense",
                            .output = "output.dense",
                            .output_norm = "output.LayerNorm"};

std::string bert_layer_prefix(int64_t i) {
  return "encoder.layer." + std::to_string(i);
}

}  // namespace

std::vector<WeightSpec> bert_weights(const ModelConfig& config) {
  const std::vector<std::string> prefixes{"bert.", ""};
  std::vector<WeightSpec> specs;
  add_table_spec(specs, "embeddings.word_embeddings", config.vocab_size, config.hidden_size, prefixes,
                 config.pad_token_id);
  add_table_spec(specs, "embeddings.position_embeddings", config.max_position_embeddings, config.hidden_size,
                 prefixes);
  add_table_spec(specs, "embeddings.token_type_embeddings", config.type_vocab_size, config.hidden_size,
                 prefixes);
  add_norm_specs(specs, "embeddings.LayerNorm", config.hidden_size, prefixes);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    add_layer_specs(specs, config, bert_layer_prefix(i), kBertNames, prefixes);
  }
  add_linear_specs(specs, "pooler.dense", config.hidden_size, config.hidden_size, prefixes);
  add_linear_specs(specs, "classifier", config.num_labels, config.hidden_size, {""});
  return specs;
}

ForwardGraph build_bert(const ModelConfig& config, const ForwardOptions& options) {
  EncoderBuilder builder(config, options, options.mode == Mode::kTrain ? "train" : "evaluate");
  Graph& graph = builder.graph();
  ValueId x = builder.embeddings("embeddings", true);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    x = builder.layer(x, bert_layer_prefix(i), kBertNames, true);
  graph.set_module("pooler");
  const ValueId first = emit(graph, first_token_op(), {x, builder.cu_seqlens()}, {}, "pooler.first_token");
  const ValueId pooled = emit(graph, tanh_op(), {builder.linear(first, "pooler.dense")}, {}, "pooler.output");
  graph.set_module("classifier");
  const double p = config.classifier_dropout.value_or(config.hidden_dropout_prob);
  const ValueId logits = builder.linear(builder.dropout(pooled, p), "classifier");
  return std::move(builder).finish(logits);
}

}  // namespace plimsoll
