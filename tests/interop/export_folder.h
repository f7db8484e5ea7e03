// Makes model folders for tests of exports. Each contains a configuration, tensors whose elements are all
// different, and a byte-level tokenizer of 258 tokens.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "io/ckpt/safetensors.h"
#include "plimsoll/error.h"
#include "plimsoll/export.h"
#include "tests/interop/gguf_reader.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll::testing {

using Json = nlohmann::json;
using Shape = std::vector<int64_t>;

// Size of the vocabulary: a token for each of the 256 bytes (GPT-2's byte-level alphabet), one merge, and the
// end-of-text token.
inline constexpr int kVocab = 258;

Json byte_level_tokenizer(const Json& pre_tokenizer);
Json gpt2_steps();

class ExportFolder {
 public:
  explicit ExportFolder(Json config, DType dtype = DType::kF32) : dtype_(dtype) {
    config["vocab_size"] = kVocab + 2;
    scratch_.write("model/config.json", config.dump());
    write_tokenizer(byte_level_tokenizer(gpt2_steps()),
                    {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", "<end>"}});
  }
  void write_tokenizer(const Json& tokenizer, const Json& settings) {
    scratch_.write("model/tokenizer.json", tokenizer.dump());
    scratch_.write("model/tokenizer_config.json", settings.dump());
  }
  // Adds a tensor of distinct numbers that bf16 and f16 represent exactly.
  void add(const std::string& name, Shape shape) {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    std::vector<float>& values = values_[name];
    for (int64_t i = 0; i < elements; ++i) values.push_back(static_cast<float>(next_++ % 251 - 125) / 64.0f);
    shapes_[name] = std::move(shape);
  }
  void save() {
    std::vector<TensorSource> tensors;
    std::map<std::string, std::vector<std::byte>> bytes;
    for (const auto& [name, values] : values_) {
      std::vector<std::byte>& data = bytes[name];
      data.resize(values.size() * static_cast<size_t>(dtype_bytes(dtype_)));
      for (size_t i = 0; i < values.size(); ++i)
        View{data.data(), dtype_}.store(static_cast<int64_t>(i), static_cast<double>(values[i]));
      tensors.push_back({.name = name, .dtype = dtype_, .shape = shapes_[name], .data = data.data()});
    }
    write_safetensors(posix_file_system(), folder() + "/model.safetensors", tensors);
  }
  std::string folder() const { return scratch_.path() + "/model"; }
  std::string file() const { return scratch_.path() + "/model.gguf"; }
  const std::vector<float>& values(const std::string& name) const { return values_.at(name); }

  ReadGguf exported(const std::string& outtype) const {
    result_ = export_model({.model = folder(), .gguf = file(), .outtype = outtype, .overwrite = true}, {});
    return read_gguf(file());
  }
  const std::vector<std::string>& notes() const { return result_.notes; }
  std::string refusal_of(const std::string& outtype, ErrorCode code) const {
    try {
      exported(outtype);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    ADD_FAILURE() << "the export was not refused";
    return "";
  }

 private:
  test::ScratchFolder scratch_;
  DType dtype_;
  int64_t next_ = 0;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, Shape> shapes_;
  mutable ExportResult result_;
};

// Return model folders of one layer, without their tensors.
ExportFolder gpt2_folder(const std::string& activation = "gelu_new");
ExportFolder llama_folder(const std::string& model_type, const std::string& prefix, const Json& more,
                          DType dtype = DType::kF32);
// Add the tensors of such a folder and save them.
void add_gpt2_tensors(ExportFolder& folder);
void add_llama_tensors(ExportFolder& folder, bool qkv_bias, bool head_norms);

}  // namespace plimsoll::testing
