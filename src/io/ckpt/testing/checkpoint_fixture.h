// A small checkpoint with every kind of content, for the tests in src/io/ckpt.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/philox.h"
#include "io/ckpt/checkpoint.h"

namespace plimsoll {

// Contains two weights and two optimizer states whose values depend on the step and on `variant`. It is saved
// under root/out.
class CheckpointFixture {
 public:
  explicit CheckpointFixture(int64_t step, const std::string& variant = "", const std::string& root = "/")
      : output(join_path(root, "out")), contents(), step_(step), source_(join_path(root, "source")) {
    contents.model.config_text = R"({"model_type": "bert"})";
    contents.model.copied_files = {{join_path(source_, "vocab.txt")}};
    contents.run_state_json = fmt::format(R"({{"step": {}, "seed": 42}})", step);
    contents.trainer_state_json = fmt::format("{{\n  \"global_step\": {}\n}}\n", step);
    contents.extra = {{"notes.json", "{}"}};
    contents.run = {"00000000000000aa", "2026-01-01T00:00:00.000000Z"};
    memory_.reserve(4);
    add(contents.model.tensors, variant, "encoder.weight", {3, 4});
    add(contents.model.tensors, variant, "encoder.bias", {3});
    add(contents.optimizer_tensors, variant, "encoder.weight.exp_avg", {12});
    add(contents.optimizer_tensors, variant, "encoder.weight.exp_avg_sq", {12});
  }

  // Writes vocab.txt into the source folder, unless it exists already. Saving a checkpoint copies this file.
  void prepare(FileSystem& files) const {
    if (files.status(join_path(source_, "vocab.txt"))) return;
    make_folders(files, source_);
    write_synced_file(files, join_path(source_, "vocab.txt"), "[PAD]\n");
    files.sync_folder(source_);
  }

  std::string save(FileSystem& files) const {
    prepare(files);
    return save_checkpoint(files, output, step_, contents);
  }

  // Returns true if the tensors of an opened checkpoint equal those of this fixture bit for bit.
  bool equals(const OpenCheckpoint& opened) const {
    bool equal = opened.step == step_;
    for (const TensorSource& tensor : contents.model.tensors) {
      const auto located = opened.model.find(tensor.name);
      equal = equal && located.tensor != nullptr && same(*located.file, tensor);
    }
    for (const TensorSource& tensor : contents.optimizer_tensors)
      equal = equal && opened.optimizer && same(*opened.optimizer, tensor);
    return equal;
  }

  std::string output;
  CheckpointContents contents;

 private:
  void add(std::vector<TensorSource>& tensors, const std::string& variant, const std::string& name,
           std::vector<int64_t> shape) {
    TensorSource tensor{.name = name, .shape = std::move(shape)};
    std::vector<float> values;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const RandomSite site{hash64(name + variant), static_cast<uint32_t>(step_), 0};
      values.push_back(static_cast<float>(philox_element(site, static_cast<uint64_t>(i)) >> 8));
    }
    memory_.push_back(std::move(values));
    tensor.data = memory_.back().data();
    tensors.push_back(std::move(tensor));
  }

  static bool same(const SafetensorsFile& file, const TensorSource& wanted) {
    const StoredTensor* stored = file.find(wanted.name);
    if (stored == nullptr || stored->shape != wanted.shape) return false;
    std::vector<float> values(static_cast<size_t>(wanted.num_elements()));
    file.read(*stored, {values.data(), DType::kF32});
    return std::equal(values.begin(), values.end(), static_cast<const float*>(wanted.data));
  }

  int64_t step_;
  std::string source_;
  std::vector<std::vector<float>> memory_;
};

}  // namespace plimsoll
