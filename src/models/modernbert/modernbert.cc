// ModernBERT (Warner et al., arXiv 2412.13663): an encoder with rotary positions, layer norms before attention and feed-forward,
// a gated feed-forward layer (GeGLU), and attention that is local in two of three layers. A token in a local layer attends to
// local_attention / 2 tokens before it and as many after it, and local layers have a rotary embedding of their own. The first
// layer has no norm before attention, because the embeddings end with one. Matrices and norms have biases only if the
// configuration says so.
//
// Heads: linear, activation, norm, dropout, linear. The head for sequences reads the first token or the mean of all tokens
// (classifier_pooling), the head for tokens every token. The head for masked language modelling begins with the first three of these
// modules (linear, activation, norm), so a checkpoint with that head provides their weights. A matrix product with the word table, or with
// a separate matrix, follows them. transformers' sparse_prediction leaves out tokens without a label, which changes no loss.
#include "models/modernbert/modernbert_config.h"

#include <array>
#include <cmath>

#include "graph/ops/activation_op.h"
#include "models/blocks/model_builder.h"
#include "models/blocks/weight_specs.h"
#include "models/config_reader.h"

namespace plimsoll {
namespace {

constexpr const char* kWords = "embeddings.tok_embeddings";
constexpr const char* kEmbeddingNorm = "embeddings.norm";
constexpr const char* kLastNorm = "final_norm";
constexpr const char* kDense = "head.dense";
constexpr const char* kHeadNorm = "head.norm";
constexpr const char* kClassifier = "classifier";
constexpr const char* kDecoder = "decoder";

const std::vector<std::string>& disk_prefixes() {
  static const std::vector<std::string> prefixes{"model.", ""};
  return prefixes;
}

// The names of one layer's modules.
struct Names {
  explicit Names(int64_t layer) : prefix("layers." + std::to_string(layer) + ".") {}
  std::string prefix;
  std::string attention_norm() const { return prefix + "attn_norm"; }
  std::string attention() const { return prefix + "attn"; }
  std::string qkv() const { return prefix + "attn.Wqkv"; }
  std::string attention_output() const { return prefix + "attn.Wo"; }
  std::string feed_forward_norm() const { return prefix + "mlp_norm"; }
  std::string feed_forward() const { return prefix + "mlp"; }
  std::string gate_up() const { return prefix + "mlp.Wi"; }
  std::string feed_forward_output() const { return prefix + "mlp.Wo"; }
};

// Adds the weights of modules whose biases depend on the configuration. Matrices are initialised from a truncated normal distribution,
// which has a smaller standard deviation if the output of the module is added to the residual.
class SpecWriter {
 public:
  SpecWriter(std::vector<WeightSpec>& specs, const ModelConfig& config) : specs_(specs), config_(config) {}

  void norm(const std::string& name, const std::vector<std::string>& disk) {
    config_.norm_bias ? add_norm_specs(specs_, name, config_.hidden_size, disk)
                      : add_gain_spec(specs_, name, config_.hidden_size, disk);
  }
  void input(const std::string& name, int64_t out, int64_t in, bool bias,
             const std::vector<std::string>& disk) {
    linear(name, out, in, bias, disk);
  }
  void output(const std::string& name, int64_t in, bool bias, const std::vector<std::string>& disk) {
    linear(name, config_.hidden_size, in, bias, disk).normal_scale = output_scale();
  }
  // Adds the weights of the matrix product in the head for masked language modelling: a matrix, unless it is tied to the word table, and a
  // bias.
  void decoder(const std::string& name) {
    const int64_t rows = config_.vocab_size;
    if (!config_.tie_word_embeddings) {
      add_table_spec(specs_, name, rows, config_.hidden_size, {""});
      specs_.back().cutoff = cutoff();
      specs_.back().normal_scale = output_scale();
    }
    if (!config_.decoder_bias) return;
    specs_.push_back({.name = name + ".bias",
                      .shape = {rows},
                      .initializer = Initializer::kZeros,
                      .decays = false,
                      .parts = {{.disk_names = {name + ".bias"}, .num_rows = rows}}});
  }
  void classifier(const std::string& name) {
    linear(name, config_.num_labels, config_.hidden_size, true, {""}).deviation =
        1.0 / std::sqrt(static_cast<double>(config_.hidden_size));
  }
  // Adds the table of word embeddings. As in transformers, the row of the padding token does not start as zero.
  void table(const std::string& name) {
    add_table_spec(specs_, name, config_.vocab_size, config_.hidden_size, disk_prefixes());
    specs_.back().cutoff = cutoff();
  }

 private:
  // Adds the weights of a linear layer and returns the WeightSpec of its matrix.
  WeightSpec& linear(const std::string& name, int64_t out, int64_t in, bool bias,
                     const std::vector<std::string>& disk) {
    const size_t at = specs_.size();
    add_packed_specs(specs_, name, {{name, out}}, in, bias ? LinearBias::kYes : LinearBias::kNo, disk);
    specs_[at].cutoff = cutoff();
    return specs_[at];
  }
  double output_scale() const {
    return 1.0 / std::sqrt(2.0 * static_cast<double>(config_.num_hidden_layers));
  }
  double cutoff() const { return config_.initializer_cutoff_factor.value_or(3.0); }

  std::vector<WeightSpec>& specs_;
  const ModelConfig& config_;
};

void add_encoder_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  SpecWriter writer(specs, config);
  const std::vector<std::string>& disk = disk_prefixes();
  const int64_t width = config.hidden_size;
  writer.table(kWords);
  writer.norm(kEmbeddingNorm, disk);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const Names names(i);
    if (i > 0) writer.norm(names.attention_norm(), disk);
    writer.input(names.qkv(), 3 * width, width, config.qkv_bias, disk);
    writer.output(names.attention_output(), width, config.output_bias, disk);
    writer.norm(names.feed_forward_norm(), disk);
    writer.input(names.gate_up(), 2 * config.intermediate_size, width, config.mlp_bias, disk);
    writer.output(names.feed_forward_output(), config.intermediate_size, config.mlp_bias, disk);
  }
  writer.norm(kLastNorm, disk);
}

ValueId build_layer(ModelBuilder& builder, ValueId x, int64_t layer) {
  const Names names(layer);
  const ModelConfig& config = builder.config();
  Graph& graph = builder.graph();
  const bool is_local = config.is_local(layer, config.slides);
  graph.set_module(names.attention());
  const ValueId normalized = layer == 0 ? x : builder.norm(x, names.attention_norm());
  const ValueId qkv =
      builder.rotate_heads(builder.linear(normalized, names.qkv()),
                           is_local ? config.local_rope : config.rope, names.attention() + ".rotated");
  // A token attends to tokens whose distance is less than the window. The largest such distance is local_attention / 2, so the window is
  // one more than that.
  const ValueId attended = builder.attention(qkv, AttentionDirection::kBoth, names.attention() + ".context",
                                             is_local ? config.local_attention / 2 + 1 : 0);
  const ValueId branch = builder.dropout(builder.linear(attended, names.attention_output()),
                                         config.attention_probs_dropout_prob);
  x = emit(graph, add_op(), {x, branch}, {}, "residual");
  graph.set_module(names.feed_forward());
  const ValueId gate_up = builder.linear(builder.norm(x, names.feed_forward_norm()), names.gate_up());
  const ValueId gated = emit(graph, glu_op(), {gate_up}, activation_attributes(builder.activation()),
                             names.feed_forward() + ".gated");
  return emit(
      graph, add_op(),
      {x, builder.linear(builder.dropout(gated, config.hidden_dropout_prob), names.feed_forward_output())},
      {}, "residual");
}

ValueId build_encoder(ModelBuilder& builder) {
  const ModelConfig& config = builder.config();
  Graph& graph = builder.graph();
  graph.set_module("embeddings");
  const ValueId ids = builder.table_rows("ids", config.vocab_size);
  ValueId x = emit(graph, embedding_sum_op(),
                   {builder.cu_seqlens(), ids, builder.weight(std::string(kWords) + ".weight")},
                   {{"padding_id", config.pad_token_id}}, "embeddings.sum");
  x = builder.dropout(builder.norm(x, kEmbeddingNorm),
                      config.embedding_dropout_prob.value_or(config.hidden_dropout_prob));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) x = build_layer(builder, x, i);
  graph.set_module(kLastNorm);
  return builder.norm(x, kLastNorm);
}

void add_prediction_weights(SpecWriter& writer, const ModelConfig& config) {
  writer.output(kDense, config.hidden_size, config.classifier_bias, {""});
  writer.norm(kHeadNorm, {""});
}

void add_head_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  SpecWriter writer(specs, config);
  add_prediction_weights(writer, config);
  writer.classifier(kClassifier);
}

void add_masked_weights(std::vector<WeightSpec>& specs, const ModelConfig& config) {
  SpecWriter writer(specs, config);
  add_prediction_weights(writer, config);
  writer.decoder(kDecoder);
}

// Builds the modules that all heads have in common: linear, activation, norm. The input and the result have the shape [N, C].
ValueId build_prediction(ModelBuilder& builder, ValueId x) {
  const Activation activation = find_activation(builder.config().classifier_activation).value();
  const ValueId activated = emit(builder.graph(), gelu_op(), {builder.linear(x, kDense)},
                                 activation_attributes(activation), "head.activated");
  return builder.norm(activated, kHeadNorm);
}

// Builds the head of a classifier. The shape of its input is [N, C], and it returns the logits, [N, K], for K labels.
ValueId build_classifier(ModelBuilder& builder, ValueId x) {
  const ValueId normalized = build_prediction(builder, x);
  builder.graph().set_module(kClassifier);
  const double p = builder.config().classifier_dropout.value_or(0.0);
  return builder.linear(builder.dropout(normalized, p), kClassifier);
}

// Builds the head for masked language modelling. It reads [T, C] and returns the logits, [T, V], for V tokens of the vocabulary.
ValueId build_masked_lm_head(ModelBuilder& builder, ValueId x) {
  builder.graph().set_module("head");
  const ValueId normalized = build_prediction(builder, x);
  builder.graph().set_module(kDecoder);
  const std::string table = builder.config().tie_word_embeddings ? kWords : kDecoder;
  const std::string bias = std::string(kDecoder) + ".bias";
  return emit_linear(builder.graph(), normalized, builder.weight(table + ".weight"),
                     builder.has_weight(bias) ? builder.weight(bias) : kNoValue, kDecoder);
}

ValueId build_sequence_head(ModelBuilder& builder, ValueId x) {
  builder.graph().set_module("head");
  const bool mean = builder.config().classifier_pooling == "mean";
  return build_classifier(
      builder, mean ? builder.sequence_mean(x, "head.mean") : builder.first_token(x, "head.first_token"));
}

ValueId build_token_classifier(ModelBuilder& builder, ValueId x) {
  builder.graph().set_module("head");
  return build_classifier(builder, x);
}

constexpr std::array kHeads{
    Head{.kind = &kSequenceClassificationHead, .add_weights = add_head_weights, .build = build_sequence_head},
    Head{.kind = &kTokenClassificationHead, .add_weights = add_head_weights, .build = build_token_classifier},
    Head{.kind = &kMaskedLmHead, .add_weights = add_masked_weights, .build = build_masked_lm_head},
};

constexpr std::array<std::string_view, 2> kIgnored{"decoder.weight", "decoder.bias"};

}  // namespace

const Architecture& modernbert_architecture() {
  static const Architecture record{
      .model_type = "modernbert",
      .class_prefix = "ModernBert",
      .config_keys = modernbert_keys(),
      .set_defaults = set_modernbert_defaults,
      .refuse_variants = [](const ConfigReader&) {},  // complete_modernbert() refuses unsupported settings
      .complete = complete_modernbert,
      .write_config = write_modernbert,
      .positions = Positions::kRotary,
      .add_encoder_weights = add_encoder_weights,
      .build_encoder = build_encoder,
      .heads = kHeads,
      .presets = modernbert_presets(),
      .lora_targets = {},
      .ignored_on_disk = kIgnored};
  return record;
}

}  // namespace plimsoll
