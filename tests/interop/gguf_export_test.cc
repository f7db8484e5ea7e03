// Exports small models as GGUF files and reads these with an independent reader. Every tensor must have the same bits as in the safetensors
// file. scripts/check_gguf.sh compares what llama.cpp computes from exported files with what Plimsoll computes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "tests/interop/export_folder.h"
#include "tests/interop/gguf_reader.h"

namespace plimsoll::testing {
namespace {

std::string f32_bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::string bf16_bytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    const uint16_t bits = f32_to_bf16(value);
    bytes.append(reinterpret_cast<const char*>(&bits), 2);
  }
  return bytes;
}

std::vector<float> transposed(const std::vector<float>& values, size_t rows, size_t columns) {
  std::vector<float> result;
  for (size_t c = 0; c < columns; ++c) {
    for (size_t r = 0; r < rows; ++r) result.push_back(values[r * columns + c]);
  }
  return result;
}

// Returns the rows of a query or key matrix in the order of llama.cpp, which stores the two halves of each rotary pair next to each other.
// For element j (0 or 1) of pair i in head h of width W, row h W + 2 i + j of llama.cpp is row h W + j W / 2 + i of Hugging Face.
std::vector<float> paired(const std::vector<float>& values, size_t heads, size_t width) {
  const size_t columns = values.size() / (heads * width);
  std::vector<float> result(values.size());
  for (size_t h = 0; h < heads; ++h) {
    for (size_t i = 0; i < width / 2; ++i) {
      for (size_t j = 0; j < 2; ++j) {
        for (size_t c = 0; c < columns; ++c)
          result[(h * width + 2 * i + j) * columns + c] =
              values[(h * width + j * width / 2 + i) * columns + c];
      }
    }
  }
  return result;
}

TEST(GgufExport, Gpt2HasTransposedMatricesAndItsTokenizer) {
  ExportFolder folder = gpt2_folder();
  add_gpt2_tensors(folder);
  const ReadGguf file = folder.exported("f32");
  const std::map<std::string, std::string> as_stored{
      {"token_embd.weight", "transformer.wte.weight"},
      {"position_embd.weight", "transformer.wpe.weight"},
      {"blk.0.attn_norm.weight", "transformer.h.0.ln_1.weight"},
      {"blk.0.attn_norm.bias", "transformer.h.0.ln_1.bias"},
      {"blk.0.ffn_norm.weight", "transformer.h.0.ln_2.weight"},
      {"blk.0.ffn_norm.bias", "transformer.h.0.ln_2.bias"},
      {"blk.0.attn_qkv.bias", "transformer.h.0.attn.c_attn.bias"},
      {"blk.0.attn_output.bias", "transformer.h.0.attn.c_proj.bias"},
      {"blk.0.ffn_up.bias", "transformer.h.0.mlp.c_fc.bias"},
      {"blk.0.ffn_down.bias", "transformer.h.0.mlp.c_proj.bias"},
      {"output_norm.weight", "transformer.ln_f.weight"},
      {"output_norm.bias", "transformer.ln_f.bias"}};
  for (const auto& [name, source] : as_stored)
    EXPECT_EQ(file.tensors.at(name).data, f32_bytes(folder.values(source))) << name;
  const std::tuple<const char*, const char*, size_t, size_t> matrices[] = {
      {"blk.0.attn_qkv.weight", "attn.c_attn", 32, 96},
      {"blk.0.attn_output.weight", "attn.c_proj", 32, 32},
      {"blk.0.ffn_up.weight", "mlp.c_fc", 32, 40},
      {"blk.0.ffn_down.weight", "mlp.c_proj", 40, 32}};
  for (const auto& [name, source, in, out] : matrices) {
    const ReadTensor& tensor = file.tensors.at(name);
    EXPECT_EQ(tensor.sizes, (std::vector<uint64_t>{in, out}));
    const auto& values = folder.values(std::string("transformer.h.0.") + source + ".weight");
    EXPECT_EQ(tensor.data, f32_bytes(transposed(values, in, out))) << name;
  }
  EXPECT_EQ(file.tensors.size(), 16u);
  EXPECT_TRUE(folder.notes().empty());

  const auto& metadata = file.metadata;
  const std::map<std::string, GgufReadValue> expected{
      {"general.architecture", "gpt2"},
      {"general.type", "model"},
      {"general.name", "model"},
      {"general.file_type", uint32_t{0}},
      {"general.quantization_version", uint32_t{2}},
      {"gpt2.context_length", uint32_t{16}},
      {"gpt2.embedding_length", uint32_t{32}},
      {"gpt2.block_count", uint32_t{1}},
      {"gpt2.feed_forward_length", uint32_t{40}},
      {"gpt2.attention.head_count", uint32_t{2}},
      {"gpt2.attention.layer_norm_epsilon", 1e-5f},
      {"gpt2.vocab_size", uint32_t{kVocab + 2}},
      {"tokenizer.ggml.model", "gpt2"},
      {"tokenizer.ggml.pre", "gpt-2"},
      {"tokenizer.ggml.bos_token_id", uint32_t{257}},
      {"tokenizer.ggml.eos_token_id", uint32_t{257}},
      {"tokenizer.ggml.add_bos_token", false},
      {"tokenizer.ggml.add_eos_token", false},
      {"tokenizer.ggml.merges", std::vector<std::string>{"t h"}}};
  for (const auto& [key, value] : expected)
    EXPECT_TRUE(metadata.contains(key) && metadata.at(key) == value) << key;
  EXPECT_EQ(metadata.size(), expected.size() + 2);
  const auto& tokens = std::get<std::vector<std::string>>(metadata.at("tokenizer.ggml.tokens"));
  const auto& types = std::get<std::vector<int32_t>>(metadata.at("tokenizer.ggml.token_type"));
  ASSERT_EQ(tokens.size(), static_cast<size_t>(kVocab + 2));
  EXPECT_EQ((std::vector<std::string>{tokens[32], tokens[97], tokens[256], tokens[257], tokens[258]}),
            (std::vector<std::string>{"\u0120", "a", "th", "<end>", "[PAD258]"}));
  EXPECT_EQ((std::vector<int32_t>(types.begin() + 255, types.end())), (std::vector<int32_t>{1, 1, 3, 5, 5}));
}

TEST(GgufExport, TypesOfMatricesFollowOuttypeAndVectorsStayF32) {
  ExportFolder folder = gpt2_folder();
  add_gpt2_tensors(folder);
  const std::pair<const char*, uint32_t> types[] = {{"auto", 1}, {"f16", 1}, {"bf16", 30}, {"q8_0", 8}};
  for (const auto& [outtype, type] : types) {
    const ReadGguf file = folder.exported(outtype);
    EXPECT_EQ(file.tensors.at("token_embd.weight").type, type);
    // Rows of 40 elements are not a multiple of the 32 elements of a q8_0 block, so this matrix is stored in
    // f16.
    EXPECT_EQ(file.tensors.at("blk.0.ffn_down.weight").type, type == 8 ? 1u : type);
    EXPECT_EQ(file.tensors.at("position_embd.weight").type, 0u);
    EXPECT_EQ(file.tensors.at("blk.0.attn_norm.weight").type, 0u);
    EXPECT_EQ(file.tensors.at("blk.0.attn_qkv.bias").type, 0u);
  }
}

// Checks those tensors of a Llama model whose rows have the same order in GGUF and in safetensors files.
void expect_llama_tensors(const ReadGguf& file, const ExportFolder& folder) {
  const std::map<std::string, std::string> names{
      {"token_embd", "model.embed_tokens"},
      {"output", "lm_head"},
      {"output_norm", "model.norm"},
      {"blk.0.attn_norm", "model.layers.0.input_layernorm"},
      {"blk.0.ffn_norm", "model.layers.0.post_attention_layernorm"},
      {"blk.0.attn_v", "model.layers.0.self_attn.v_proj"},
      {"blk.0.attn_output", "model.layers.0.self_attn.o_proj"},
      {"blk.0.ffn_gate", "model.layers.0.mlp.gate_proj"},
      {"blk.0.ffn_up", "model.layers.0.mlp.up_proj"},
      {"blk.0.ffn_down", "model.layers.0.mlp.down_proj"}};
  for (const auto& [name, source] : names) {
    const ReadTensor& tensor = file.tensors.at(name + ".weight");
    const auto& values = folder.values(source + ".weight");
    EXPECT_EQ(tensor.data, tensor.type == 30 ? bf16_bytes(values) : f32_bytes(values)) << name;
  }
}

TEST(GgufExport, LlamaHasPairsOfRowsAndDivisorsOfFrequencies) {
  const Json rope{{"rope_type", "llama3"},   {"rope_theta", 100.0},
                  {"factor", 8.0},           {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 24}};
  ExportFolder folder = llama_folder("llama", "Llama", {{"rope_parameters", rope}}, DType::kBF16);
  add_llama_tensors(folder, false, false);
  const ReadGguf file = folder.exported("auto");
  expect_llama_tensors(file, folder);
  const auto& q = folder.values("model.layers.0.self_attn.q_proj.weight");
  const auto& k = folder.values("model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(file.tensors.at("blk.0.attn_q.weight").data, bf16_bytes(paired(q, 4, 8)));
  EXPECT_EQ(file.tensors.at("blk.0.attn_k.weight").data, bf16_bytes(paired(k, 2, 8)));
  EXPECT_EQ(std::get<uint32_t>(file.metadata.at("general.file_type")), 32u);
  EXPECT_EQ(std::get<uint32_t>(file.metadata.at("llama.attention.head_count_kv")), 2u);
  EXPECT_EQ(std::get<float>(file.metadata.at("llama.rope.freq_base")), 100.0f);
  // Llama 3 scales its rotary frequencies. The wavelengths 2 pi 100^(i / 4) are 6.3, 19.9, 62.8 and 198.7 positions. Frequencies
  // with a wavelength beyond 24 are divided by 8, and those between 6 and 24 by 1 / ((1 - s) / 8 + s) with s = (24 / wavelength - 1)
  // / 3.
  const ReadTensor& divisors = file.tensors.at("rope_freqs.weight");
  ASSERT_EQ(divisors.data.size(), 16u);
  float found[4];
  std::memcpy(found, divisors.data.data(), 16);
  const auto between = [](double wavelength) {
    const double s = (24.0 / wavelength - 1.0) / 3.0;
    return 1.0 / ((1.0 - s) / 8.0 + s);
  };
  EXPECT_NEAR(found[0], between(6.283185307179586), 1e-6);
  EXPECT_NEAR(found[1], between(6.283185307179586 * std::sqrt(10.0)), 1e-5);
  EXPECT_EQ(found[2], 8.0f);
  EXPECT_EQ(found[3], 8.0f);
  EXPECT_EQ(file.tensors.size(), 13u);
}

TEST(GgufExport, MistralIsStoredAsLlamaWithItsWindowAsContext) {
  ExportFolder folder = llama_folder("mistral", "Mistral", {{"sliding_window", 16}});
  add_llama_tensors(folder, false, false);
  const ReadGguf file = folder.exported("f32");
  EXPECT_EQ(std::get<std::string>(file.metadata.at("general.architecture")), "llama");
  EXPECT_EQ(std::get<uint32_t>(file.metadata.at("llama.context_length")), 16u);
  EXPECT_EQ(file.tensors.at("blk.0.attn_q.weight").data,
            f32_bytes(paired(folder.values("model.layers.0.self_attn.q_proj.weight"), 4, 8)));
  ASSERT_EQ(folder.notes().size(), 1u);
  EXPECT_EQ(folder.notes()[0],
            "The file states a context of 16 tokens, the sliding window of the model, instead of 64, because "
            "llama.cpp attends to all earlier tokens in "
            "this architecture.");
}

TEST(GgufExport, QwenHasRowsAsStored) {
  for (const bool is_third : {false, true}) {
    const Json yarn{{"rope_type", "yarn"},
                    {"rope_theta", 100.0},
                    {"factor", 4.0},
                    {"original_max_position_embeddings", 16}};
    ExportFolder folder =
        llama_folder(is_third ? "qwen3" : "qwen2", is_third ? "Qwen3" : "Qwen2", {{"rope_parameters", yarn}});
    add_llama_tensors(folder, !is_third, is_third);
    const ReadGguf file = folder.exported("f32");
    expect_llama_tensors(file, folder);
    for (const std::string part : {"q", "k"}) {
      const std::string source = "model.layers.0.self_attn." + part + (is_third ? "_norm" : "_proj");
      const std::string name = "blk.0.attn_" + part;
      EXPECT_EQ(file.tensors.at(name + ".weight").data,
                f32_bytes(folder.values("model.layers.0.self_attn." + part + "_proj.weight")));
      EXPECT_EQ(file.tensors.at(is_third ? name + "_norm.weight" : name + ".bias").data,
                f32_bytes(folder.values(source + (is_third ? ".weight" : ".bias"))));
    }
    const std::string prefix = is_third ? "qwen3." : "qwen2.";
    EXPECT_EQ(std::get<std::string>(file.metadata.at(prefix + "rope.scaling.type")), "yarn");
    EXPECT_EQ(std::get<float>(file.metadata.at(prefix + "rope.scaling.factor")), 4.0f);
    EXPECT_EQ(std::get<uint32_t>(file.metadata.at(prefix + "rope.scaling.original_context_length")), 16u);
    EXPECT_EQ(std::get<uint32_t>(file.metadata.at("tokenizer.ggml.eos_token_id")), 257u);
  }
}

}  // namespace
}  // namespace plimsoll::testing
