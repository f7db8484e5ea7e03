// Builds a forward graph module by module. Every weight is declared once, when a module first reads it. Only finish() moves the graph out.
// Not thread-safe: one thread builds a graph.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/activation_names.h"
#include "graph/ir/name_index.h"
#include "graph/ops/ops.h"
#include "models/blocks/weight_specs.h"
#include "models/model.h"

namespace plimsoll {

// The tokens of its own sequence to which a token attends: all of them (kBoth), or itself and earlier tokens (kCausal).
enum class AttentionDirection : uint8_t { kBoth, kCausal };

class ModelBuilder {
 public:
  // Declares the inputs that every model reads. Requires: `config` and `specs`, which are the weights of the model, outlive the
  // builder.
  ModelBuilder(const ModelConfig& config, const ForwardOptions& options, std::span<const WeightSpec> specs);

  const ModelConfig& config() const { return config_; }
  // Returns the activation that the configuration names. Requires: the configuration was checked.
  Activation activation() const { return find_activation(config_.hidden_act).value(); }
  Mode mode() const { return options_.mode; }
  Graph& graph() { return graph_; }
  ValueId cu_seqlens() const { return cu_seqlens_; }
  ValueId rng() const { return rng_; }

  bool has_weight(std::string_view name) const { return find_spec(name) != nullptr; }
  // Declares the weight with this name, unless it is declared already, and returns it. Requires: the model has such a weight.
  ValueId weight(std::string_view name);
  // Adds the linear layer `name` to the graph, with a bias if the model has the weight "<name>.bias".
  ValueId linear(ValueId x, const std::string& name) {
    const std::string bias = name + ".bias";
    return emit_linear(graph_, x, weight(name + ".weight"), has_weight(bias) ? weight(bias) : kNoValue, name);
  }
  // Adds the layer norm `name` to the graph, with a bias if the model has the weight "<name>.bias".
  ValueId norm(ValueId x, const std::string& name) {
    const std::string bias = name + ".bias";
    return emit_layer_norm(graph_, x, weight(name + ".weight"), has_weight(bias) ? weight(bias) : kNoValue,
                           config_.layer_norm_eps, name);
  }
  ValueId first_token(ValueId x_TC, const std::string& name) {
    return emit(graph_, first_token_op(), {x_TC, cu_seqlens_}, {}, name);
  }
  // Emits the mean of the rows of each sequence: x_TC -> [B, C].
  ValueId sequence_mean(ValueId x_TC, const std::string& name) {
    return emit(graph_, sequence_mean_op(), {x_TC, cu_seqlens_}, {}, name);
  }
  ValueId last_token(ValueId x_TC, const std::string& name) {
    return emit(graph_, first_token_op(), {x_TC, cu_seqlens_}, {{"last", int64_t{1}}}, name);
  }
  // Emits the selection of the rows of tokens with a label: x_TC -> [L, C]. Declares the input label_ends
  // (HeadRows in model.h).
  ValueId labelled_rows(ValueId x_TC, const std::string& name) {
    const ValueId ends = graph_.add_input("label_ends", {DType::kI32, Shape{Dim(1, Symbol::kLabels, 1)}},
                                          {.content = InputContent::kRowEnds});
    return emit(graph_, first_token_op(), {x_TC, ends}, {{"last", int64_t{1}}}, name);
  }
  // Declares an input that contains, for every token, the index of a row of a table.
  ValueId table_rows(const char* name, int64_t num_rows) {
    return graph_.add_input(name, {DType::kI32, Shape{kDimT}},
                            {.content = InputContent::kTableRows, .table_rows = num_rows});
  }
  // Declares the input that contains the position of every token, which is an index into a table of max_position_embeddings rows.
  ValueId positions();
  // Emits the attention of H query heads and G key and value heads of size D: qkv_T((H+2G)D) -> [T, HD], with dropout. If `window` is not
  // 0, a token attends only to tokens that are less than `window` positions away.
  ValueId attention(ValueId qkv, AttentionDirection direction, const std::string& name, int64_t window = 0);
  // Emits a root-mean-square norm with the weight `name` as gain: x_TC -> [T, C].
  ValueId rms_norm(ValueId x, const std::string& name);
  // Emits the norms of the heads of q and of k, each with its gain: qkv_T((H+2G)D) -> the same shape.
  ValueId norm_of_heads(ValueId qkv, const std::string& q_name, const std::string& k_name,
                        const std::string& name);
  // Emits a rotary embedding, which rotates the heads of q and k: qkv_T((H+2G)D) -> the same shape.
  ValueId rotate_heads(ValueId qkv, const RopeParameters& rope, const std::string& name);
  // Emits attention with a cache: qkv -> [T, C]. It stores the new keys and values in the cache and attends to all tokens of the sequence.
  // `attributes` contains heads, scale and, if they differ from their defaults, kv_heads and window. Requires: the options of this builder
  // request a cache.
  ValueId cached_attention(ValueId qkv, const Attributes& attributes, const std::string& name);
  ValueId dropout(ValueId x, double p);

  // Returns a new dropout site, whose number distinguishes its random draws from others. The probability is 0 in an evaluation.
  DropoutSpec next_dropout(double p);

  // Names the value `logits` and returns the graph, to which no loss was added yet. In an evaluation, the logits are an output, which the
  // host reads.
  ForwardGraph finish(ValueId logits) &&;

 private:
  const WeightSpec* find_spec(std::string_view name) const;

  const ModelConfig& config_;
  ForwardOptions options_;
  Graph graph_;
  std::span<const WeightSpec> specs_;
  NameIndex specs_by_name_;
  ValueId cu_seqlens_;
  ValueId rng_ = kNoValue;
  // The inputs of a KV cache: the page table, the lengths of sequences and the pages to copy. Set if the model has a cache.
  ValueId page_table_ = kNoValue;
  ValueId lengths_ = kNoValue;
  ValueId copy_from_ = kNoValue;
  // For each set of parameters (as text, rope_text()), the table of cosines and sines. Layers with equal parameters share a table.
  std::map<std::string, ValueId> rope_tables_;
  int64_t next_site_ = 0;
};

// Adds the weights of the head for token classification, which is the same in every architecture: dropout, and a linear
// layer over the hidden state of every token.
inline void add_token_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  add_linear_specs(specs, "classifier", config.num_labels, config.hidden_size, {""});
}

// Builds the head for token classification. x_TC -> logits_TK. `dropout` is the probability of the dropout before the linear layer.
inline ValueId build_token_head(ModelBuilder& builder, ValueId x, double dropout) {
  builder.graph().set_module("classifier");
  return builder.linear(builder.dropout(x, dropout), "classifier");
}

// Builds the head for token classification with the dropout probability classifier_dropout, or hidden_dropout_prob if that is not set.
inline ValueId build_token_head(ModelBuilder& builder, ValueId x) {
  const ModelConfig& config = builder.config();
  return build_token_head(builder, x, config.classifier_dropout.value_or(config.hidden_dropout_prob));
}

// The head for language modelling of every decoder: a matrix product with the word table, or with a separate matrix if the weights are not
// tied.
inline constexpr const char* kLanguageHead = "lm_head";
inline void add_language_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  if (config.tie_word_embeddings) return;
  add_table_spec(specs, kLanguageHead, config.vocab_size, config.hidden_size, {""});
}

// Builds the head for language modelling. x_TC -> logits_TV. `words` is the name of the module with the word table.
inline ValueId build_language_head(ModelBuilder& builder, ValueId x, const std::string& words) {
  builder.graph().set_module(kLanguageHead);
  const std::string table = builder.config().tie_word_embeddings ? words : kLanguageHead;
  return emit(builder.graph(), matmul_op(),
              {x, builder.weight(table + ".weight"), kNoValue, kNoValue, kNoValue},
              {{"ta", int64_t{0}}, {"tb", int64_t{1}}}, "logits");
}

}  // namespace plimsoll
