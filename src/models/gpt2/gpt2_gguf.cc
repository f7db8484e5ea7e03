// The names of tensors and the metadata of GPT-2 in a GGUF file, the format of llama.cpp.
#include <array>

#include "base/check.h"
#include "models/gpt2/gpt2_gguf.h"

namespace plimsoll {
namespace {

constexpr std::array kModules{
    GgufModule{"transformer.wte", "token_embd"},
    GgufModule{"transformer.wpe", "position_embd"},
    GgufModule{"transformer.h.*.ln_1", "blk.*.attn_norm"},
    GgufModule{"transformer.h.*.attn.c_attn", "blk.*.attn_qkv"},
    GgufModule{"transformer.h.*.attn.c_proj", "blk.*.attn_output"},
    GgufModule{"transformer.h.*.ln_2", "blk.*.ffn_norm"},
    GgufModule{"transformer.h.*.mlp.c_fc", "blk.*.ffn_up"},
    GgufModule{"transformer.h.*.mlp.c_proj", "blk.*.ffn_down"},
    GgufModule{"transformer.ln_f", "output_norm"},
    GgufModule{"lm_head", "output"},
};

void refuse_gpt2_variants(const ModelConfig& config, std::string_view where) {
  if (config.hidden_act == "gelu_new" || config.hidden_act == "gelu_pytorch_tanh") return;
  throw_error(
      ErrorCode::kUsage,
      "{}: activation_function is '{}'; llama.cpp computes 'gelu_new' in every GPT-2, so that it cannot "
      "run this model; use transformers",
      where, config.hidden_act);
}

void add_gpt2_metadata(GgufMetadata& metadata, const ModelConfig& config, const std::string& prefix) {
  metadata.add_size(prefix + "context_length", config.max_position_embeddings);
  metadata.add_size(prefix + "embedding_length", config.hidden_size);
  metadata.add_size(prefix + "block_count", config.num_hidden_layers);
  metadata.add_size(prefix + "feed_forward_length", config.intermediate_size);
  metadata.add_size(prefix + "attention.head_count", config.num_attention_heads);
  metadata.add(prefix + "attention.layer_norm_epsilon", static_cast<float>(config.layer_norm_eps));
  metadata.add_size(prefix + "vocab_size", config.vocab_size);
}

}  // namespace

const GgufForm& gpt2_gguf_form() {
  static const GgufForm form{.architecture = "gpt2",
                             .modules = kModules,
                             .table_in_f32 = "position_embd.weight",
                             .refuse_variants = refuse_gpt2_variants,
                             .add_metadata = add_gpt2_metadata};
  return form;
}

}  // namespace plimsoll
