// The embeddings, the post-norm encoder layer and the heads of BERT and the architectures that derive from it
// (Vaswani et al., arXiv 1706.03762; Devlin et al., arXiv 1810.04805). Thread-safe: pure functions.
//
// Shape letters: T tokens, C hidden size.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "models/architecture.h"
#include "models/blocks/model_builder.h"
#include "models/blocks/weight_specs.h"
#include "models/config.h"

namespace plimsoll {

// The names of the modules of one layer in a checkpoint, without the prefix of the layer.
struct LayerNames {
  std::string query, key, value, attention_output, attention_norm, intermediate, output, output_norm;
};

// Return the names of the parameters of an encoder layer in checkpoints of BERT, and their prefix for one layer. Other architectures use
// the same names.
const LayerNames& bert_layer_names();
std::string bert_layer_prefix(int64_t layer);

enum class AttentionOutputDropout : uint8_t { kNo, kYes };

// Adds the weights of one layer. The matrices of q, k and v are adjacent parts of one weight, so that one matrix product computes all
// three; a checkpoint stores them as three tensors.
void add_layer_specs(std::vector<WeightSpec>& specs, const ModelConfig& config, const std::string& prefix,
                     const LayerNames& names, const std::vector<std::string>& disk_prefixes);

// Adds self-attention and feed-forward to the graph, each with a residual and a norm. Input and result have the shape [T, C].
ValueId build_layer(ModelBuilder& builder, ValueId x_TC, const std::string& prefix, const LayerNames& names,
                    AttentionOutputDropout attention_output_dropout);

// Adds the tables of words, positions and (if the model has them) token types, and the norm of their sum, all
// of the configuration's embedding width.
void add_embedding_specs(std::vector<WeightSpec>& specs, const ModelConfig& config,
                         const std::vector<std::string>& disk_prefixes);

// Builds the embeddings: the sum of the rows of the tables for each token, then norm and dropout. Returns x_TC.
ValueId build_embeddings(ModelBuilder& builder);

// Returns BERT's keys of config.json, which architectures with the same encoder use too.
std::span<const ConfigKey> bert_config_keys();

// Adds the weights of the embeddings and of all layers, with BERT's names.
void add_bert_encoder_specs(std::vector<WeightSpec>& specs, const ModelConfig& config,
                            const std::vector<std::string>& disk_prefixes);
ValueId build_bert_encoder(ModelBuilder& builder);
// Builds all layers. Their weights have the names that BERT uses. x_TC -> x_TC.
ValueId build_bert_layers(ModelBuilder& builder, ValueId x_TC);

// The head that predicts one result per sequence, in models that have no pooler. It applies to the first token of each sequence: dropout, `classifier.dense`, the
// activation, dropout, `classifier.out_proj`. x_TC -> logits_BK. One function adds the weights of the head, the other builds the head.
void add_dense_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config);
ValueId build_dense_head(ModelBuilder& builder, ValueId x_TC, const OpSchema& activation);

// The head of BERT and the architectures that derive from it for masked language modelling: a linear layer, an activation and a norm, then
// a matrix product with the word table, or with a separate matrix if the weights are not tied, and a bias per token of the vocabulary.
struct MaskedHeadNames {
  const char* dense;
  const char* norm;
  const char* decoder;         // module of the bias and, if the weights are not tied, of the matrix
  const char* bias = nullptr;  // a second name of this bias in checkpoints; null if it has none
};

// Adds the weights of the head, with the names in `names`. A checkpoint may contain the bias under two names, because a decoder with a
// separate matrix has its own bias.
void add_masked_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config,
                             const MaskedHeadNames& names);
// Builds the head for masked language modelling. x_TC -> logits_TV.
ValueId build_masked_head(ModelBuilder& builder, ValueId x_TC, const MaskedHeadNames& names,
                          Activation activation);

}  // namespace plimsoll
