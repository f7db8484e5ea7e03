// Checkpoints of a run: `checkpoint-N` folders that Hugging Face's from_pretrained can open and from which a
// run resumes bit for bit.
//
// Invariants, which the tests check after a failure at every system call:
//  1. A folder named checkpoint-N is complete. It gets that name by one rename, after every file in it was
//     synced and the manifest with all sizes and hashes was written last.
//  2. Saving, rotation (removing old checkpoints) and cleaning never damage another checkpoint: none is removed before a newer one is
//     complete.
//  3. Removal starts with a rename, so a partly removed folder never has the name of a checkpoint.
//  4. Once the links `best` and `last` exist, each refers to a complete checkpoint. The only exception: a second save of
//     the same step removes the target of a link for the moment between two renames.
//  5. Rotation removes only checkpoints of the run that saved last.
//
// Several runs may have left checkpoints in one output folder; each checkpoint contains the identity of its
// run.
//
// Names in the output folder: checkpoint-N; tmp-checkpoint-N during writing; tmp-removed-checkpoint-N during
// removal; checkpoint-N.replaced while a second save of step N replaces it; best and last, symbolic links.
//
// Thread-safety: one writer per output folder; any number of readers. Errors: FileError from the disk,
// kBadData.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {

inline constexpr int kCheckpointSchemaVersion = 1;
inline constexpr std::string_view kManifestFile = "plimsoll_manifest.json";
inline constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
inline constexpr std::string_view kRunStateFile = "run_state.json";
inline constexpr int64_t kMaxRunStateBytes = int64_t{1} << 30;
inline constexpr std::string_view kTrainerStateFile = "trainer_state.json";

struct NamedText {
  std::string name;  // name of a file in the checkpoint, without its folder
  std::string text;
};

// Identifies the run that wrote a checkpoint. A run that resumes keeps the identity of the run that it continues.
struct RunIdentity {
  // 16 hexadecimal digits, drawn at the start of the run; empty in checkpoints of earlier versions
  std::string id;
  // Start of the run in a form that sorts by time: "2026-11-21T08:15:30.123456Z".
  std::string started;
  friend bool operator==(const RunIdentity&, const RunIdentity&) = default;
};

// Receives the next piece of a text, so that a long text is never in memory as a whole.
using PutText = std::function<void(std::string_view piece)>;

struct StreamedText {
  std::string name;  // name of a file in the checkpoint, without its folder
  std::function<void(const PutText& put)> write;
};

struct CheckpointContents {
  RunIdentity run;
  ModelContents model;
  std::vector<TensorSource> optimizer_tensors;
  bool has_optimizer_states = true;  // if false, the checkpoint has no file for optimizer_tensors
  // The state of the run as JSON text. open_checkpoint() returns a text with the same JSON value. If it is empty, the checkpoint contains
  // only the model (`--save_only_model`), and no run can resume from it.
  std::string run_state_json;
  std::string trainer_state_json;  // the text of trainer_state.json
  std::vector<NamedText> extra;    // names and texts of further small files
  // More files of the checkpoint. Their text is long, so the function that is given here writes it in pieces.
  std::vector<StreamedText> streamed;
};

// Writes output_folder/checkpoint-<step>, which is complete and durable when this function returns. Creates
// the output folder if necessary. On a failure it removes the temporary folder (to free space on a full disk)
// and leaves every other checkpoint unchanged, which the error message states. Returns the path.
std::string save_checkpoint(FileSystem& files, const std::string& output_folder, int64_t step,
                            const CheckpointContents& contents);

enum class VerifyDepth : uint8_t { kSizes, kHashes };

// Checks if a folder is a complete checkpoint. Returns nothing if it is, otherwise the reason in one line. kSizes compares file sizes
// with one status call per file; kHashes also reads all data. Never throws, whatever a damaged checkpoint contains.
std::optional<std::string> find_damage(FileSystem& files, const std::string& folder, VerifyDepth depth);

// Returns a sentence for the user if `folder` is not a checkpoint of Plimsoll but something that users mistake for one: a checkpoint of
// Hugging Face's Trainer, of accelerate or DeepSpeed, a model, a folder of checkpoints, or a file. The sentence states what the user can do
// instead, such as giving the folder of a model as --model_name_or_path. Otherwise returns an empty string.
std::string describe_foreign_checkpoint(FileSystem& files, const std::string& folder);

struct SkippedCheckpoint {
  std::string path;
  std::string reason;
};

struct NewestCheckpoint {
  std::string path;  // path of the checkpoint folder; empty if no valid checkpoint was found
  int64_t step = -1;
  RunIdentity run;
  // Newer checkpoints that are damaged or cannot be resumed from, newest first.
  std::vector<SkippedCheckpoint> skipped;
};

// Finds the newest valid checkpoint from which a run can resume. Among the runs in the folder, it is that of the run that started last,
// and within this run that of the highest step. Checkpoints with an unreadable manifest belong to no run; they are reported as skipped if
// their step is higher than that of the result. Only reads files. If the folder does not exist, the result is empty.
NewestCheckpoint find_newest_verified(FileSystem& files, const std::string& output_folder,
                                      VerifyDepth depth = VerifyDepth::kHashes);

struct ListedCheckpoint {
  std::string path;
  int64_t step = 0;
  // The run that saved the checkpoint; empty if the manifest is missing or unreadable.
  std::optional<RunIdentity> run;
  bool has_manifest = false;
};

// Lists all folders named checkpoint-N by increasing step, complete or damaged, of any run. Reads only the
// manifests.
std::vector<ListedCheckpoint> list_checkpoints(FileSystem& files, const std::string& output_folder);

// Writes and syncs a file whose text arrives in pieces. Does not sync the folder of the file.
WrittenFile write_streamed_file(FileSystem& files, const std::string& path,
                                const std::function<void(const PutText& put)>& write);

// The content of a checkpoint that a run resumes from. The hashes are not verified when it is opened, so find_newest_verified or
// find_damage must be called before.
struct OpenCheckpoint {
  std::string path;
  int64_t step = 0;
  ModelFolder model;
  // The file of the optimizer states. It is absent in a checkpoint that was saved at the end of a run without optimizer states.
  std::optional<SafetensorsFile> optimizer;
  RunIdentity run;
  std::string run_state_json;
};

// Opens a checkpoint. Errors: kBadData if one of its files is missing, has another schema version, or is not JSON.
OpenCheckpoint open_checkpoint(FileSystem& files, const std::string& folder);

// Removes the oldest checkpoints of the run that saved `committed` until `limit` remain. `committed` (the checkpoint just saved) and
// `best` (may be empty) are never removed, so two checkpoints may remain although the limit is 1. Damaged checkpoints are removed first.
// Checkpoints of other runs and folders without a readable manifest are neither counted nor removed. Does nothing if the file sizes in
// `committed` do not match its manifest. Returns the removed paths. Requires: limit >= 1.
std::vector<std::string> rotate_checkpoints(FileSystem& files, const std::string& output_folder,
                                            int64_t limit, const std::string& committed,
                                            const std::string& best);

// Removes the leftovers of a killed run: temporary folders, links and files, and each folder checkpoint-N.replaced if a newer save of step
// N is complete. If there is no newer save of step N, this folder gets its name checkpoint-N back. Must be called at the start of a run,
// before the first save. Returns the removed paths.
std::vector<std::string> remove_leftovers(FileSystem& files, const std::string& output_folder);

// Makes output_folder/<link> ("best", "last") refer to a checkpoint in the same folder, atomically and durably. Returns false, without an
// effect on the checkpoint, if the file system does not support symbolic links or if a folder has the name of the link.
bool point_link(FileSystem& files, const std::string& output_folder, std::string_view link,
                const std::string& checkpoint_path);

// Returns N for a folder named checkpoint-N, with or without a path before the name, and nothing for other names.
std::optional<int64_t> checkpoint_step(std::string_view path);

// Locks an output folder for one run. Two runs that write into one folder would remove each other's
// checkpoints.
//
// The kernel holds the lock on FOLDER/.plimsoll.lock, so it is released when the process ends for any reason.
// The file remains and contains the number of the last process that held the lock. If a file system does not
// support such locks (some network file systems do not), nothing is locked and no run is refused. Not
// thread-safe; the object owns the lock.

inline constexpr const char* kLockFile = ".plimsoll.lock";

class FolderLock {
 public:
  // Locks the folder. Requires: the folder exists. Errors: kUsage, with the file and the process that holds
  // the lock; FileError.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace plimsoll
