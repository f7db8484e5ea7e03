// Saves checkpoints, removes old ones and cleans up. The order of the system calls is essential for the invariants of checkpoint.h;
// checkpoint_test.cc verifies it.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/json.h"
#include "io/ckpt/checkpoint.h"
#include "io/ckpt/checkpoint_folder.h"
#include "io/ckpt/manifest.h"

namespace plimsoll {
namespace {

constexpr std::string_view kWritingPrefix = "tmp-";
constexpr std::string_view kRemovingPrefix = "tmp-removed-";

std::string format_run_state(const std::string& state_json) {
  const nlohmann::json text = {
      {"schema_version", kCheckpointSchemaVersion},
      {"state", parse_json(state_json, kRunStateFile, strict_json(kMaxRunStateBytes))}};
  return python_json(text, 2) + "\n";
}

void write_text(FileSystem& files, const std::string& folder, std::string_view name, std::string_view text,
                internal::Manifest& manifest) {
  PLIMSOLL_CHECK(!manifest.lists(name) && name != kManifestFile, "two files of a checkpoint are named {}",
                 name);
  manifest.files.push_back(write_synced_file(files, join_path(folder, name), text));
}

// Writes and syncs every file of the checkpoint except its manifest.
internal::Manifest write_files(FileSystem& files, const std::string& folder, int64_t step,
                               const CheckpointContents& contents) {
  internal::Manifest manifest;
  manifest.step = step;
  manifest.run = contents.run;
  manifest.files = write_model_files(files, folder, contents.model);
  internal::write_texts(files, folder, contents, manifest);
  if (internal::writes_optimizer(contents)) {
    manifest.files.push_back(
        write_safetensors(files, join_path(folder, kOptimizerFile), contents.optimizer_tensors));
  }
  internal::write_run_state(files, folder, contents, manifest);
  return manifest;
}

// Removes the folder of a checkpoint. Renames it first, so that a partly removed folder never has the name of a checkpoint, not even after
// a crash.
void remove_checkpoint(FileSystem& files, const std::string& path) {
  const std::string parent = parent_folder(path);
  const std::string removing = join_path(parent, std::string(kRemovingPrefix) + file_name(path));
  remove_tree(files, removing);
  files.rename(path, removing);
  files.sync_folder(parent);
  remove_tree(files, removing);
}

// Calls a clean-up function after a failure and ignores its errors, so that the first failure is reported.
template <typename Call>
void best_effort(Call&& call) {
  try {
    call();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the next run removes the leftover
  }
}

// Renames the finished temporary folder to the name of the checkpoint. An existing checkpoint of the same step is renamed before and
// removed afterwards.
void commit(FileSystem& files, const std::string& output_folder, const std::string& temporary,
            const std::string& path) {
  const std::string replaced = path + std::string(internal::kReplacedSuffix);
  const bool replaces = files.status(path).has_value();
  if (replaces) {
    if (files.status(replaced)) remove_checkpoint(files, replaced);
    files.rename(path, replaced);
  }
  try {
    files.rename(temporary, path);
  } catch (const Error&) {
    if (replaces) best_effort([&] { files.rename(replaced, path); });
    throw;
  }
  files.sync_folder(output_folder);
  if (files.status(replaced)) best_effort([&] { remove_checkpoint(files, replaced); });
}

bool is_leftover_name(std::string_view name) {
  if (name.starts_with(kTemporaryPrefix)) return true;
  for (const std::string_view prefix : {kRemovingPrefix, kWritingPrefix}) {
    if (!name.starts_with(prefix)) continue;
    std::string_view rest = name.substr(prefix.size());
    if (rest.ends_with(internal::kReplacedSuffix)) rest.remove_suffix(internal::kReplacedSuffix.size());
    if (checkpoint_step(rest)) return true;
  }
  return false;
}

// If a step is saved a second time, the folder of the first save is renamed before the second save gets its final name, and removed
// afterwards. This function handles a renamed folder `name` that a killed process has left: it removes the folder if the second save is
// complete, and restores its name if no folder of the second save exists. If the second save is damaged, it changes nothing.
void settle_replaced(FileSystem& files, const std::string& output_folder, const std::string& name,
                     std::vector<std::string>& removed) {
  const std::string replaced = join_path(output_folder, name);
  const std::string path = replaced.substr(0, replaced.size() - internal::kReplacedSuffix.size());
  if (!files.status(path)) {
    files.rename(replaced, path);
    files.sync_folder(output_folder);
  } else if (!find_damage(files, path, VerifyDepth::kSizes)) {
    remove_checkpoint(files, replaced);
    removed.push_back(replaced);
  }
}

struct RotationEntry {
  bool damaged = false;
  int64_t step = 0;
  std::string path;
};

// Returns the checkpoints of the run in the order in which rotation removes them: damaged ones first, then the oldest.
std::vector<RotationEntry> rotation_order(FileSystem& files, const std::string& output_folder,
                                          const RunIdentity& run) {
  std::vector<RotationEntry> order;
  for (const ListedCheckpoint& listed : list_checkpoints(files, output_folder)) {
    if (listed.run != run) continue;
    order.push_back(
        {find_damage(files, listed.path, VerifyDepth::kSizes).has_value(), listed.step, listed.path});
  }
  std::ranges::sort(order, [](const RotationEntry& a, const RotationEntry& b) {
    return a.damaged != b.damaged ? a.damaged : a.step < b.step;
  });
  return order;
}

}  // namespace

WrittenFile write_streamed_file(FileSystem& files, const std::string& path,
                                const std::function<void(const PutText& put)>& write) {
  const auto file = files.create(path);
  WrittenFile written{.name = file_name(path), .size_bytes = 0, .hash = {}};
  HashStream128 hash;
  std::string buffer;
  const auto flush = [&] {
    if (buffer.empty()) return;
    file->write(std::as_bytes(std::span(buffer)));
    hash.update(buffer);
    written.size_bytes += std::ssize(buffer);
    buffer.clear();
  };
  write([&](std::string_view piece) {
    buffer += piece;
    if (std::ssize(buffer) >= kFileChunkBytes) flush();
  });
  flush();
  file->sync();
  file->close();
  written.hash = hash.digest();
  return written;
}

namespace internal {

std::string checkpoint_path(const std::string& output_folder, int64_t step) {
  return join_path(output_folder, fmt::format("checkpoint-{}", step));
}

std::string temporary_checkpoint_path(const std::string& output_folder, int64_t step) {
  return join_path(output_folder, fmt::format("{}checkpoint-{}", kWritingPrefix, step));
}

void begin_checkpoint(FileSystem& files, const std::string& output_folder, int64_t step) {
  const std::string temporary = temporary_checkpoint_path(output_folder, step);
  make_folders(files, output_folder);
  remove_tree(files, temporary);
  files.make_folder(temporary);
}

void write_texts(FileSystem& files, const std::string& folder, const CheckpointContents& contents,
                 Manifest& manifest) {
  for (const NamedText& extra : contents.extra) write_text(files, folder, extra.name, extra.text, manifest);
  for (const StreamedText& text : contents.streamed) {
    PLIMSOLL_CHECK(!manifest.lists(text.name) && text.name != kManifestFile,
                   "two files of a checkpoint are named {}", text.name);
    manifest.files.push_back(write_streamed_file(files, join_path(folder, text.name), text.write));
  }
  if (!contents.trainer_state_json.empty())
    write_text(files, folder, kTrainerStateFile, contents.trainer_state_json, manifest);
}

void write_run_state(FileSystem& files, const std::string& folder, const CheckpointContents& contents,
                     Manifest& manifest) {
  if (!contents.run_state_json.empty())
    write_text(files, folder, kRunStateFile, format_run_state(contents.run_state_json), manifest);
}

bool writes_optimizer(const CheckpointContents& contents) {
  return !contents.run_state_json.empty() && contents.has_optimizer_states;
}

std::string commit_checkpoint(FileSystem& files, const std::string& output_folder, const Manifest& manifest) {
  const std::string temporary = temporary_checkpoint_path(output_folder, manifest.step);
  write_synced_file(files, join_path(temporary, kManifestFile), format_manifest(manifest));
  files.sync_folder(temporary);
  std::string path = checkpoint_path(output_folder, manifest.step);
  commit(files, output_folder, temporary, path);
  return path;
}

void discard_checkpoint(FileSystem& files, const std::string& output_folder, int64_t step) {
  best_effort([&] { remove_tree(files, temporary_checkpoint_path(output_folder, step)); });
}

std::string not_saved_message(const std::string& output_folder, int64_t step, std::string_view cause) {
  return fmt::format("{} was not saved: {}. Earlier checkpoints are unchanged",
                     checkpoint_path(output_folder, step), cause);
}

}  // namespace internal

std::string save_checkpoint(FileSystem& files, const std::string& output_folder, int64_t step,
                            const CheckpointContents& contents) {
  PLIMSOLL_CHECK(step >= 0, "step {}", step);
  try {
    internal::begin_checkpoint(files, output_folder, step);
    const std::string temporary = internal::temporary_checkpoint_path(output_folder, step);
    return internal::commit_checkpoint(files, output_folder, write_files(files, temporary, step, contents));
  } catch (const Error& error) {
    internal::discard_checkpoint(files, output_folder, step);
    throw Error(error.code(), internal::not_saved_message(output_folder, step, error.what()));
  }
}

std::vector<std::string> rotate_checkpoints(FileSystem& files, const std::string& output_folder,
                                            int64_t limit, const std::string& committed,
                                            const std::string& best) {
  PLIMSOLL_CHECK(limit >= 1, "the number of checkpoints to keep must be at least 1, but is {}", limit);
  std::vector<std::string> removed;
  if (find_damage(files, committed, VerifyDepth::kSizes)) return removed;
  const RunIdentity run = internal::read_manifest(files, committed).run;
  const std::vector<RotationEntry> order = rotation_order(files, output_folder, run);
  auto num_left = std::ssize(order);
  for (const RotationEntry& entry : order) {
    if (num_left <= limit) break;
    const std::string name = file_name(entry.path);
    if (name == file_name(committed) || (!best.empty() && name == file_name(best))) continue;
    remove_checkpoint(files, entry.path);
    removed.push_back(entry.path);
    --num_left;
  }
  return removed;
}

std::vector<std::string> remove_leftovers(FileSystem& files, const std::string& output_folder) {
  std::vector<std::string> removed;
  const auto output = files.status(output_folder);
  if (!output || output->kind != FileKind::kFolder) return removed;
  for (const FolderEntry& entry : files.list(output_folder)) {
    const std::string_view name = entry.name;
    if (is_leftover_name(name)) {
      removed.push_back(join_path(output_folder, name));
      remove_tree(files, removed.back());
    } else if (name.ends_with(internal::kReplacedSuffix) &&
               checkpoint_step(name.substr(0, name.size() - internal::kReplacedSuffix.size()))) {
      settle_replaced(files, output_folder, entry.name, removed);
    }
  }
  return removed;
}

bool point_link(FileSystem& files, const std::string& output_folder, std::string_view link,
                const std::string& checkpoint_path) {
  const std::string target = file_name(checkpoint_path);
  const std::string path = join_path(output_folder, link);
  if (files.read_link(path) == target) return true;
  const std::string temporary = join_path(output_folder, fmt::format("{}{}", kTemporaryPrefix, link));
  remove_tree(files, temporary);
  try {
    files.make_link(target, temporary);
  } catch (const FileError& error) {
    const int number = error.error_number();
    if (number == EPERM || number == EOPNOTSUPP || number == ENOSYS) return false;
    throw;
  }
  try {
    files.rename(temporary, path);
  } catch (const FileError& error) {
    // The user has a folder or file with the name of the link. It is kept, and no link is created.
    if (error.error_number() != EISDIR && error.error_number() != ENOTEMPTY && error.error_number() != EEXIST)
      throw;
    remove_tree(files, temporary);
    return false;
  }
  files.sync_folder(output_folder);
  return true;
}

}  // namespace plimsoll
