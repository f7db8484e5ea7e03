// Recognizes folders that users mistake for checkpoints of Plimsoll.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/printable.h"
#include "io/ckpt/checkpoint.h"
#include "io/ckpt/foreign_weights.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {
namespace {

struct ForeignState {
  NamePattern name;
  std::string_view program;
};

// Names of files and folders by which the checkpoints of other programs are recognized.
constexpr ForeignState kForeignStates[] = {
    {{"zero_to_fp32.py", ""}, "DeepSpeed"},
    {{"mp_rank_", "_model_states.pt"}, "DeepSpeed"},
    {{"zero_pp_rank_", "_optim_states.pt"}, "DeepSpeed"},
    {{"bf16_zero_pp_rank_", "_optim_states.pt"}, "DeepSpeed"},
    {{"pytorch_model_fsdp_0", ""}, "PyTorch's FSDP"},
    {{"pytorch_model_fsdp.bin", ""}, "PyTorch's FSDP"},
    {{"", ".distcp"}, "PyTorch's FSDP or torch.distributed"},
    {{"", ".ckpt"}, "PyTorch Lightning"},
    {{"latest_checkpointed_iteration.txt", ""}, "Megatron-LM"},
    {{"random_states_0.pkl", ""}, "Hugging Face's accelerate"},
    {{"training_args.bin", ""}, "Hugging Face's Trainer"},
    {{"optimizer.pt", ""}, "Hugging Face's Trainer"},
    {{"scheduler.pt", ""}, "Hugging Face's Trainer"},
    {{"rng_state.pth", ""}, "Hugging Face's Trainer"},
    {{"rng_state_0.pth", ""}, "Hugging Face's Trainer"},
    {{"trainer_state.json", ""}, "Hugging Face's Trainer"},
};

// Returns the sentence about a checkpoint of another program. `name` is the file or folder by which it was recognized.
std::string describe_state(const ForeignState& row, std::string_view name, const std::string& as_model) {
  return fmt::format(
      "it is a checkpoint of {} ({}), whose optimizer and position Plimsoll cannot continue. {}", row.program,
      printable(name), as_model);
}

constexpr std::string_view kSaveItsModel =
    "It has no weights in safetensors either; save its model with save_pretrained() and give that folder as "
    "--model_name_or_path";

bool contains(FileSystem& files, const std::string& folder, std::string_view name) {
  return files.status(join_path(folder, name)).has_value();
}

// Returns the path of the checkpoint with the highest step inside a folder, or an empty string if it contains none.
std::string checkpoint_inside(FileSystem& files, const std::string& folder) {
  std::string newest;
  int64_t last = -1;
  for (const FolderEntry& entry : files.list(folder)) {
    const auto step = checkpoint_step(entry.name);
    if (!step || *step <= last) continue;
    last = *step;
    newest = join_path(folder, entry.name);
  }
  return newest;
}

}  // namespace

std::string describe_foreign_checkpoint(FileSystem& files, const std::string& folder) {
  const auto status = files.status(folder);
  if (!status || contains(files, folder, kManifestFile)) return {};
  if (status->kind != FileKind::kFolder) {
    const std::string_view name = std::string_view(folder).substr(folder.rfind('/') + 1);
    for (const ForeignState& row : kForeignStates) {
      if (row.name.matches(name)) return describe_state(row, name, std::string(kSaveItsModel));
    }
    return "it is a file, but a checkpoint of Plimsoll is a folder (checkpoint-STEP in --output_dir)";
  }
  // Only checkpoints of Plimsoll contain these files, so the folder is a checkpoint that lost its manifest.
  if (contains(files, folder, kOptimizerFile) || contains(files, folder, kRunStateFile)) return {};
  if (const std::string inside = checkpoint_inside(files, folder); !inside.empty()) {
    return fmt::format(
        "it contains checkpoints and is none itself; name one of them, such as {}, or give True to "
        "resume from the newest in --output_dir",
        inside);
  }
  const bool has_weights = contains(files, folder, kWeightsFile) ||
                           contains(files, folder, kWeightsIndexFile) ||
                           contains(files, folder, kAdapterWeightsFile);
  const std::string as_model =
      has_weights ? fmt::format(
                        "To begin a new run with its weights, give --model_name_or_path {} without "
                        "--resume_from_checkpoint",
                        folder)
                  : std::string(kSaveItsModel);
  std::vector<FolderEntry> entries = files.list(folder);
  std::ranges::sort(entries, {}, &FolderEntry::name);
  for (const ForeignState& row : kForeignStates) {
    for (const FolderEntry& entry : entries) {
      if (row.name.matches(entry.name)) return describe_state(row, entry.name, as_model);
    }
  }
  if (!has_weights) return {};
  return fmt::format("it is a model without the state of a run. {}", as_model);
}

}  // namespace plimsoll
