// The names of tensors and the metadata of the Llama family in a GGUF file, the format of llama.cpp. In its architecture `llama`, llama.cpp
// applies rotary embeddings to pairs of adjacent elements of a head, so that the rows of q and k are stored in that order; in `qwen2` and
// `qwen3` it rotates the halves of a head, as Hugging Face does.
#include "models/llama/llama_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace plimsoll {
namespace {

constexpr std::array kLlamaModules{
    GgufModule{"model.embed_tokens", "token_embd"},
    GgufModule{"model.layers.*.input_layernorm", "blk.*.attn_norm"},
    GgufModule{"model.layers.*.self_attn.q_proj", "blk.*.attn_q", GgufRows::kPairs},
    GgufModule{"model.layers.*.self_attn.k_proj", "blk.*.attn_k", GgufRows::kPairs},
    GgufModule{"model.layers.*.self_attn.v_proj", "blk.*.attn_v"},
    GgufModule{"model.layers.*.self_attn.o_proj", "blk.*.attn_output"},
    GgufModule{"model.layers.*.post_attention_layernorm", "blk.*.ffn_norm"},
    GgufModule{"model.layers.*.mlp.gate_proj", "blk.*.ffn_gate"},
    GgufModule{"model.layers.*.mlp.up_proj", "blk.*.ffn_up"},
    GgufModule{"model.layers.*.mlp.down_proj", "blk.*.ffn_down"},
    GgufModule{"model.norm", "output_norm"},
    GgufModule{"lm_head", "output"},
};
constexpr std::array kQwenModules{
    GgufModule{"model.embed_tokens", "token_embd"},
    GgufModule{"model.layers.*.input_layernorm", "blk.*.attn_norm"},
    GgufModule{"model.layers.*.self_attn.q_proj", "blk.*.attn_q"},
    GgufModule{"model.layers.*.self_attn.k_proj", "blk.*.attn_k"},
    GgufModule{"model.layers.*.self_attn.v_proj", "blk.*.attn_v"},
    GgufModule{"model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm"},
    GgufModule{"model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm"},
    GgufModule{"model.layers.*.self_attn.o_proj", "blk.*.attn_output"},
    GgufModule{"model.layers.*.post_attention_layernorm", "blk.*.ffn_norm"},
    GgufModule{"model.layers.*.mlp.gate_proj", "blk.*.ffn_gate"},
    GgufModule{"model.layers.*.mlp.up_proj", "blk.*.ffn_up"},
    GgufModule{"model.layers.*.mlp.down_proj", "blk.*.ffn_down"},
    GgufModule{"model.norm", "output_norm"},
    GgufModule{"lm_head", "output"},
};

// Returns true if llama.cpp computes the same YaRN scaling of the rotary embedding. llama.cpp derives the factor of cosines and sines from
// the scaling factor, and it always uses the default values of beta_fast, beta_slow and truncate.
bool is_usual_yarn(const RopeParameters& rope) {
  const RopeParameters usual;
  return rope.attention_factor == yarn_attention_factor(rope.factor, 0.0, 0.0) && rope.truncate &&
         rope.beta_fast == usual.beta_fast && rope.beta_slow == usual.beta_slow;
}

void refuse_activation_and_rope(const ModelConfig& config, std::string_view where, bool has_divisors) {
  if (config.hidden_act != "silu" && config.hidden_act != "swish") {
    throw_error(ErrorCode::kUsage,
                "{}: hidden_act is '{}'; llama.cpp computes 'silu' in every model of this family, so that it "
                "cannot run this model; use transformers or vLLM",
                where, config.hidden_act);
  }
  const RopeParameters& rope = config.rope;
  const bool is_supported = rope.type == RopeType::kDefault || rope.type == RopeType::kLinear ||
                            (rope.type == RopeType::kYarn && is_usual_yarn(rope)) ||
                            (rope.type == RopeType::kLlama3 && has_divisors);
  if (is_supported) return;
  throw_error(ErrorCode::kUsage,
              "{}: the rotary embedding has the type '{}'{}, which llama.cpp computes differently than in "
              "the training "
              "of this model; use transformers or vLLM",
              where, rope_type_name(rope.type),
              rope.type == RopeType::kYarn ? " with unusual parameters" : "");
}

void refuse_llama_variants(const ModelConfig& config, std::string_view where) {
  refuse_activation_and_rope(config, where, true);
}
void refuse_qwen_variants(const ModelConfig& config, std::string_view where) {
  refuse_activation_and_rope(config, where, false);
  if (!config.output_bias) return;
  throw_error(
      ErrorCode::kUsage,
      "{}: attention_bias is true; llama.cpp has no such bias in this architecture, so that it cannot "
      "run this model; use transformers or vLLM",
      where);
}

bool limits_attention(const ModelConfig& config) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const int64_t window = config.window_of(layer);
    if (window > 0 && window < config.max_position_embeddings) return true;
  }
  return false;
}
// Returns the context length that the file states. llama.cpp has no sliding window for these architectures, so the context length is
// limited to the size of the window. For texts of this length the window makes no difference.
int64_t context_length(const ModelConfig& config) {
  return limits_attention(config) ? config.sliding_window : config.max_position_embeddings;
}
std::string note_on_window(const ModelConfig& config) {
  if (!limits_attention(config)) return "";
  return fmt::format(
      "The file states a context of {} tokens, the sliding window of the model, instead of {}, because "
      "llama.cpp "
      "attends to all earlier tokens in this architecture.",
      config.sliding_window, config.max_position_embeddings);
}

void add_family_metadata(GgufMetadata& metadata, const ModelConfig& config, const std::string& prefix) {
  metadata.add_size(prefix + "context_length", context_length(config));
  metadata.add_size(prefix + "embedding_length", config.hidden_size);
  metadata.add_size(prefix + "block_count", config.num_hidden_layers);
  metadata.add_size(prefix + "feed_forward_length", config.intermediate_size);
  metadata.add_size(prefix + "attention.head_count", config.num_attention_heads);
  metadata.add_size(prefix + "attention.head_count_kv", config.heads_of_keys());
  metadata.add_size(prefix + "attention.key_length", config.head_width());
  metadata.add_size(prefix + "attention.value_length", config.head_width());
  metadata.add(prefix + "attention.layer_norm_rms_epsilon", static_cast<float>(config.layer_norm_eps));
  metadata.add_size(prefix + "rope.dimension_count", config.head_width());
  metadata.add(prefix + "rope.freq_base", static_cast<float>(config.rope.theta));
  metadata.add_size(prefix + "vocab_size", config.vocab_size);
  const RopeParameters& rope = config.rope;
  if (rope.type != RopeType::kLinear && rope.type != RopeType::kYarn) return;
  metadata.add(prefix + "rope.scaling.type", std::string(rope_type_name(rope.type)));
  metadata.add(prefix + "rope.scaling.factor", static_cast<float>(rope.factor));
  if (rope.type == RopeType::kYarn)
    metadata.add_size(prefix + "rope.scaling.original_context_length", static_cast<int64_t>(rope.original));
}

std::vector<float> llama3_divisors(const ModelConfig& config) {
  std::vector<float> divisors;
  if (config.rope.type != RopeType::kLlama3) return divisors;
  const int64_t width = config.head_width();
  const RopeFrequencies scaled = rope_frequencies(config.rope, width);
  const RopeFrequencies plain = rope_frequencies({.theta = config.rope.theta}, width);
  for (size_t i = 0; i < static_cast<size_t>(width / 2); ++i)
    divisors.push_back(static_cast<float>(plain.within[i] / scaled.within[i]));
  return divisors;
}

GgufForm form_of_family(std::string_view architecture, std::span<const GgufModule> modules) {
  return {.architecture = architecture,
          .modules = modules,
          .refuse_variants = refuse_qwen_variants,
          .add_metadata = add_family_metadata,
          .note = note_on_window};
}

}  // namespace

const GgufForm& llama_gguf_form() {
  static const GgufForm form = [] {
    GgufForm llama = form_of_family("llama", kLlamaModules);
    llama.refuse_variants = refuse_llama_variants;
    llama.rope_divisors = llama3_divisors;
    return llama;
  }();
  return form;
}
const GgufForm& qwen2_gguf_form() {
  static const GgufForm form = form_of_family("qwen2", kQwenModules);
  return form;
}
const GgufForm& qwen3_gguf_form() {
  static const GgufForm form = form_of_family("qwen3", kQwenModules);
  return form;
}

}  // namespace plimsoll
