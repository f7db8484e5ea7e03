// Tests exports that are refused. Each error must name the reason and what to do instead.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "io/ckpt/safetensors.h"
#include "plimsoll/export.h"
#include "tests/interop/export_folder.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll::testing {
namespace {

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(GgufRefusals, TokenizersThatLlamaCppDoesNotHaveAreRefused) {
  ExportFolder folder = gpt2_folder();
  add_gpt2_tensors(folder);
  const Json generic{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", "<end>"}};
  const auto refusal = [&](const Json& tokenizer, const Json& settings) {
    folder.write_tokenizer(tokenizer, settings);
    const std::string text = folder.refusal_of("f32", ErrorCode::kUsage);
    return text.substr(text.find("tokenizer.json"));
  };
  const std::string ending =
      "; export the weights for transformers or vLLM, which read the folder as it is, or train with a "
      "tokenizer that llama.cpp has";
  Json steps = gpt2_steps();
  steps["add_prefix_space"] = true;
  EXPECT_EQ(refusal(byte_level_tokenizer(steps), generic),
            "tokenizer.json: llama.cpp does not have this tokenizer: add_prefix_space is true" + ending);
  const Json split{
      {"type", "Split"}, {"pattern", {{"Regex", "x"}}}, {"behavior", "Isolated"}, {"invert", false}};
  EXPECT_EQ(refusal(byte_level_tokenizer({{"type", "Sequence"}, {"pretokenizers", {split, gpt2_steps()}}}),
                    generic),
            "tokenizer.json: llama.cpp does not have this tokenizer: its pre_tokenizer is none of those of "
            "GPT-2, SmolLM, Llama 3 and Qwen 2" +
                ending);
  Json words = byte_level_tokenizer(gpt2_steps());
  words["model"]["type"] = "WordLevel";
  words["model"]["unk_token"] = "th";
  words["model"].erase("merges");
  EXPECT_EQ(refusal(words, generic),
            "tokenizer.json: llama.cpp does not have this tokenizer: its model is not BPE" + ending);
  Json larger = byte_level_tokenizer(gpt2_steps());
  larger["added_tokens"][0]["id"] = 258;
  larger["model"]["vocab"]["more"] = kVocab + 2;
  folder.write_tokenizer(larger, generic);
  expect_part(folder.refusal_of("f32", ErrorCode::kBadData),
              "the token 'more' has the id 260, but the model has 260 tokens");
}

TEST(GgufRefusals, ModelsThatLlamaCppDoesNotComputeAreRefused) {
  ExportFolder relu = gpt2_folder("relu");
  add_gpt2_tensors(relu);
  expect_part(relu.refusal_of("f32", ErrorCode::kUsage),
              "activation_function is 'relu'; llama.cpp computes 'gelu_new' in every GPT-2");

  const Json rope{{"rope_type", "dynamic"}, {"rope_theta", 100.0}, {"factor", 2.0}};
  ExportFolder dynamic = llama_folder("llama", "Llama", {{"rope_parameters", rope}});
  add_llama_tensors(dynamic, false, false);
  expect_part(dynamic.refusal_of("f32", ErrorCode::kUsage), "the rotary embedding has the type 'dynamic'");

  ExportFolder classifier =
      llama_folder("llama", "Llama", {{"architectures", {"LlamaForSequenceClassification"}}});
  add_llama_tensors(classifier, false, false);
  expect_part(
      classifier.refusal_of("f32", ErrorCode::kUsage),
      "config.json does not state the class LlamaForCausalLM, and only language models are exported to GGUF");

  ExportFolder encoder({{"model_type", "bert"}, {"architectures", {"BertForMaskedLM"}}});
  encoder.add("x", {1});
  encoder.save();
  expect_part(encoder.refusal_of("f32", ErrorCode::kUsage),
              "only decoders are exported to GGUF (gpt2, llama, mistral, qwen2, qwen3)");
}

TEST(GgufRefusals, AdaptersAreMergedFirst) {
  test::ScratchFolder scratch;
  scratch.write("adapter/adapter_config.json", R"({"peft_type": "LORA", "base_model_name_or_path": "base"})");
  const float value = 0.0f;
  write_safetensors(
      posix_file_system(), scratch.path() + "/adapter/adapter_model.safetensors",
      std::vector<TensorSource>{{.name = "x", .dtype = DType::kF32, .shape = {1}, .data = &value}});
  const std::string adapter = scratch.path() + "/adapter";
  try {
    export_model({.model = adapter, .gguf = scratch.path() + "/x.gguf"}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_EQ(std::string(error.what()),
              adapter +
                  ": it is an adapter, and a GGUF file contains a complete model; merge it "
                  "first: plimsoll merge --adapter " +
                  adapter + " --output_dir MERGED");
  }
}

TEST(GgufRefusals, FilesAreReplacedOnlyIfThatIsAskedFor) {
  ExportFolder folder = gpt2_folder();
  add_gpt2_tensors(folder);
  folder.exported("f32");
  const auto message = [&](const ExportOptions& options) {
    try {
      export_model(options, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string name = "--gguf " + folder.file();
  EXPECT_EQ(message({.model = folder.folder(), .gguf = folder.file()}),
            name + ": the file exists; choose another name, or replace it with --overwrite");
  const std::string weights = folder.folder() + "/model.safetensors";
  EXPECT_EQ(message({.model = folder.folder(), .gguf = weights, .overwrite = true}),
            "--gguf " + weights + ": the file exists and is no GGUF file; choose another name");
  EXPECT_EQ(message({.model = folder.folder(), .gguf = folder.folder() + "/none/x.gguf"}),
            "--gguf " + folder.folder() + "/none/x.gguf: the folder " + folder.folder() +
                "/none does not exist; create it, or choose another one");
  EXPECT_EQ(message({.model = folder.folder(), .gguf = folder.file(), .outtype = "q4_0", .overwrite = true}),
            "--outtype is 'q4_0', but one of auto, f32, f16, q8_0, bf16 is expected");
}

}  // namespace
}  // namespace plimsoll::testing
