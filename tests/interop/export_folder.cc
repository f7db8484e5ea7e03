#include "tests/interop/export_folder.h"

#include <tuple>

namespace plimsoll::testing {

Json byte_level_tokenizer(const Json& pre_tokenizer) {
  Json vocab;
  int extra = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool shown = (byte >= 33 && byte < 127) || (byte >= 161 && byte < 173) || byte >= 174;
    const int c = shown ? byte : 256 + extra++;
    std::string token;
    if (c < 128) {
      token = static_cast<char>(c);
    } else {
      token = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    }
    vocab[token] = byte;
  }
  vocab["th"] = 256;
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", 257},
             {"content", "<end>"},
             {"special", true},
             {"normalized", false},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"t h"}}}}};
}
Json gpt2_steps() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
}

ExportFolder gpt2_folder(const std::string& activation) {
  return ExportFolder({{"model_type", "gpt2"},
                       {"architectures", {"GPT2LMHeadModel"}},
                       {"n_embd", 32},
                       {"n_layer", 1},
                       {"n_head", 2},
                       {"n_positions", 16},
                       {"n_inner", 40},
                       {"bos_token_id", 257},
                       {"eos_token_id", 257},
                       {"activation_function", activation}});
}
void add_gpt2_tensors(ExportFolder& folder) {
  folder.add("transformer.wte.weight", {kVocab + 2, 32});
  folder.add("transformer.wpe.weight", {16, 32});
  for (const char* norm : {"h.0.ln_1", "h.0.ln_2", "ln_f"}) {
    folder.add(std::string("transformer.") + norm + ".weight", {32});
    folder.add(std::string("transformer.") + norm + ".bias", {32});
  }
  const std::tuple<const char*, int64_t, int64_t> linears[] = {
      {"attn.c_attn", 32, 96}, {"attn.c_proj", 32, 32}, {"mlp.c_fc", 32, 40}, {"mlp.c_proj", 40, 32}};
  for (const auto& [name, in, out] : linears) {
    folder.add(std::string("transformer.h.0.") + name + ".weight", {in, out});
    folder.add(std::string("transformer.h.0.") + name + ".bias", {out});
  }
  folder.save();
}

ExportFolder llama_folder(const std::string& model_type, const std::string& prefix, const Json& more,
                          DType dtype) {
  Json config{{"model_type", model_type},
              {"architectures", {prefix + "ForCausalLM"}},
              {"hidden_size", 32},
              {"num_hidden_layers", 1},
              {"num_attention_heads", 4},
              {"num_key_value_heads", 2},
              {"head_dim", 8},
              {"intermediate_size", 64},
              {"max_position_embeddings", 64},
              {"rms_norm_eps", 1e-6},
              {"tie_word_embeddings", false},
              {"eos_token_id", {257, 256}}};
  config.update(more);
  return ExportFolder(config, dtype);
}
void add_llama_tensors(ExportFolder& folder, bool qkv_bias, bool head_norms) {
  folder.add("model.embed_tokens.weight", {kVocab + 2, 32});
  folder.add("lm_head.weight", {kVocab + 2, 32});
  for (const char* norm : {"layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"})
    folder.add(std::string("model.") + norm + ".weight", {32});
  const std::tuple<const char*, int64_t, int64_t> linears[] = {
      {"self_attn.q_proj", 32, 32}, {"self_attn.k_proj", 16, 32}, {"self_attn.v_proj", 16, 32},
      {"self_attn.o_proj", 32, 32}, {"mlp.gate_proj", 64, 32},    {"mlp.up_proj", 64, 32},
      {"mlp.down_proj", 32, 64}};
  for (const auto& [name, out, in] : linears) {
    folder.add(std::string("model.layers.0.") + name + ".weight", {out, in});
    const std::string_view module(name);
    if (qkv_bias && module.starts_with("self_attn") && module != "self_attn.o_proj")
      folder.add(std::string("model.layers.0.") + name + ".bias", {out});
  }
  if (head_norms) {
    folder.add("model.layers.0.self_attn.q_norm.weight", {8});
    folder.add("model.layers.0.self_attn.k_norm.weight", {8});
  }
  folder.save();
}

}  // namespace plimsoll::testing
