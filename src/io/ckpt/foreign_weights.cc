#include "io/ckpt/foreign_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/disguised_file.h"
#include "base/printable.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {
namespace {

enum class Remedy : uint8_t {
  kStateDict,     // for a file of PyTorch that contains tensors by name
  kShards,        // for several such files
  kTensorFlow,    // for weights that only transformers 4 with TensorFlow reads
  kFlax,          // for weights that only transformers 4 with Flax reads
  kGguf,          // for a file of llama.cpp
  kOriginal,      // for a format for inference, in which the names of the weights are lost
  kIndex,         // for shards whose index is missing
  kNotConverted,  // for safetensors with tensor names of another program
  kRename,        // for the right format under another name
};

struct ForeignWeights {
  NamePattern name;
  std::string_view what;
  Remedy remedy;
};

// In the order of preference, if a folder contains files of several formats.
constexpr ForeignWeights kForeignWeights[] = {
    {{"pytorch_model", ".bin.index.json"}, "sharded PyTorch pickle files", Remedy::kShards},
    {{"pytorch_model.bin", ""}, "a PyTorch pickle file", Remedy::kStateDict},
    {{"model-", ".safetensors"}, "shards without their index", Remedy::kIndex},
    {{"consolidated", ".safetensors"}, "weights with the names of another program", Remedy::kNotConverted},
    {{"adapter_model", ".safetensors"},
     "the weights of an adapter without its adapter_config.json",
     Remedy::kNotConverted},
    {{"", ".safetensors"}, "safetensors under another name", Remedy::kRename},
    {{"", ".bin"}, "a PyTorch pickle file", Remedy::kStateDict},
    {{"", ".pt"}, "a PyTorch pickle file", Remedy::kStateDict},
    {{"", ".pth"}, "a PyTorch pickle file", Remedy::kStateDict},
    {{"", ".ckpt.index"}, "TensorFlow weights", Remedy::kTensorFlow},
    {{"", ".ckpt"}, "a pickle file of PyTorch or PyTorch Lightning", Remedy::kStateDict},
    {{"tf_model", ".h5"}, "TensorFlow weights", Remedy::kTensorFlow},
    {{"flax_model", ".msgpack"}, "Flax weights", Remedy::kFlax},
    {{"", ".gguf"}, "weights for llama.cpp", Remedy::kGguf},
    {{"", ".onnx"}, "an ONNX graph for inference", Remedy::kOriginal},
};

// Files that PyTorch writes next to a model and that contain no weights.
constexpr std::string_view kNotWeights[] = {"optimizer.bin", "optimizer.pt", "rng_state.pth",    "scaler.pt",
                                            "scheduler.bin", "scheduler.pt", "training_args.bin"};

// Writes a text as a word of a shell command.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// Returns a shell command that converts files of PyTorch to one model.safetensors in `folder`. `words` are their names in the syntax of
// the shell.
std::string convert_state_dicts(const std::string& folder, const std::string& words) {
  return fmt::format(
      "cd {} && python3 -c \"import sys, torch, safetensors.torch as s; w = {{}}; "
      "[w.update(d.get('state_dict', "
      "d)) for f in sys.argv[1:] for d in [torch.load(f, map_location='cpu', weights_only=True)]]; "
      "s.save_file({{k: v.clone().contiguous() for k, v in w.items() if torch.is_tensor(v)}}, "
      "'model.safetensors', metadata={{'format': 'pt'}})\" {}",
      shell_word(folder), words);
}

// Returns a shell command that converts the weights of another framework. transformers 5 no longer reads them.
std::string convert_with_transformers_4(const std::string& folder, std::string_view argument) {
  return fmt::format(
      "cd {} && python3 -c \"import transformers as t; c = t.AutoConfig.from_pretrained('.'); getattr(t, "
      "c.architectures[0]).from_pretrained('.', {}=True).save_pretrained('.')\"",
      shell_word(folder), argument);
}

// Returns the part of the message that tells what the user can do about the weights in the file `name`.
std::string describe_remedy(const ForeignWeights& row, const std::string& folder, const std::string& name) {
  switch (row.remedy) {
    case Remedy::kStateDict:
      return ", because loading a pickle can execute code. Convert it once on a machine with PyTorch:\n  " +
             convert_state_dicts(folder, shell_word(name));
    case Remedy::kShards:
      return ", because loading a pickle can execute code. Convert them once on a machine with PyTorch:\n  " +
             convert_state_dicts(folder, "pytorch_model-*.bin");
    case Remedy::kTensorFlow:
      return ". Convert them once on a machine with TensorFlow and transformers 4:\n  " +
             convert_with_transformers_4(folder, "from_tf");
    case Remedy::kFlax:
      return ". Convert them once on a machine with Flax and transformers 4:\n  " +
             convert_with_transformers_4(folder, "from_flax");
    case Remedy::kGguf:
      return ". Download the original model, whose weights are in safetensors; if it does not exist, "
             "transformers converts such a file with from_pretrained(folder, gguf_file=name) and "
             "save_pretrained()";
    case Remedy::kOriginal:
      return ". Use the model from which it was exported, saved with save_pretrained()";
    case Remedy::kIndex:
      return fmt::format(" without {}. Download this file of the model as well", kWeightsIndexFile);
    case Remedy::kNotConverted:
      return ". Use a copy of the model that was saved for transformers, with config.json";
    case Remedy::kRename:
      return fmt::format(" unless it is called {}. Rename it if it contains all weights of the model",
                         kWeightsFile);
  }
  return {};
}

bool has_model(FileSystem& files, const std::string& folder) {
  return is_file(files, join_path(folder, kConfigFile)) ||
         is_file(files, join_path(folder, kAdapterConfigFile));
}

}  // namespace

bool is_file(FileSystem& files, const std::string& path) {
  const auto status = files.status(path);
  return status && status->kind == FileKind::kFile;
}

void refuse_pointer(FileSystem& files, const std::string& path) {
  const std::string start = start_of_file(files, path);
  if (is_lfs_pointer(start)) refuse_disguised_text(start, path);
}

std::string describe_foreign_weights(FileSystem& files, const std::string& folder) {
  std::vector<FolderEntry> entries = files.list(folder);
  std::ranges::sort(entries, {}, &FolderEntry::name);
  for (const ForeignWeights& row : kForeignWeights) {
    for (const FolderEntry& entry : entries) {
      const std::string path = join_path(folder, entry.name);
      if (!row.name.matches(entry.name) || !is_file(files, path)) continue;
      if (std::ranges::find(kNotWeights, entry.name) != std::end(kNotWeights)) continue;
      refuse_pointer(files, path);
      return fmt::format("only {} ({}), which Plimsoll does not read{}", printable(entry.name), row.what,
                         describe_remedy(row, folder, entry.name));
    }
  }
  for (const FolderEntry& entry : entries) {
    const std::string inner = join_path(folder, entry.name);
    if (entry.kind == FileKind::kFile || !has_model(files, inner)) continue;
    return fmt::format("only a model in the folder {}. Give this path instead: {}", printable(entry.name),
                       inner);
  }
  return {};
}

}  // namespace plimsoll
