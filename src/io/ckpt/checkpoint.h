// Checkpoints of a run: `checkpoint-N` folders that Hugging Face's from_pretrained opens and that a run
// resumes from bitwise.
//
// Invariants, each held by tests that stop the disk at every call:
//  1. A folder named checkpoint-N is complete: it got that name by one rename, after every file in it was
//     synced and the manifest with all sizes and hashes was written last.
//  2. Saving, rotating and cleaning never harm another checkpoint: none is removed before a newer one is
//     committed.
//  3. Removing starts with a rename, so that a half-removed folder never has the name of a checkpoint.
//  4. `best` and `last` lead to a complete checkpoint once they exist (saving the same step a second time
//     takes their target away for the moment between two renames).
//  5. Rotation removes checkpoints of the run that saved last, and of no other.
//
// Several runs may have left checkpoints in one output folder: each carries the identity of its run.
//
// Names in the output folder: checkpoint-N; tmp-checkpoint-N while being written; tmp-removed-checkpoint-N
// while being removed; checkpoint-N.replaced while a second save of step N takes its place; best and last,
// symbolic links.
//
// Thread-safety: one writer per output folder; readers at any time. Errors: FileError from the disk,
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
inline constexpr std::string_view kTrainerStateFile = "trainer_state.json";

struct NamedText {
  std::string name;  // a plain file name
  std::string text;
};

// Which run a checkpoint belongs to. A run that resumes keeps the identity of the one that it continues.
struct RunIdentity {
  std::string id;       // 16 hexadecimal digits, drawn when the run began; empty: an earlier version's
  std::string started;  // "2026-11-21T08:15:30.123456Z": in this form, later is greater
  friend bool operator==(const RunIdentity&, const RunIdentity&) = default;
};

// Takes a text piece by piece, so that a long one never lies in memory as a whole.
using PutText = std::function<void(std::string_view piece)>;

struct StreamedText {
  std::string name;  // a plain file name
  std::function<void(const PutText& put)> write;
};

struct CheckpointContents {
  RunIdentity run;
  ModelContents model;
  // Empty vector and empty texts: a checkpoint of the model only (`--save_only_model`), which cannot be
  // resumed from.
  std::vector<TensorSource> optimizer_tensors;
  std::string run_state_json;          // any JSON value; returned by open_checkpoint with equal value
  std::string trainer_state_json;      // written as it is
  std::vector<NamedText> extra;        // further small files, written as they are
  std::vector<StreamedText> streamed;  // further files of any length
};

// Writes output_folder/checkpoint-<step>, which exists and is durable when this returns. The output folder is
// made if need be. A failure removes the temporary folder (to give a full disk its room back), leaves every
// other checkpoint alone, and the error says so. Returns the path.
std::string save_checkpoint(FileSystem& files, const std::string& output_folder, int64_t step,
                            const CheckpointContents& contents);

enum class VerifyDepth : uint8_t { kSizes, kHashes };

// Nothing if the folder is a complete checkpoint; else the reason why it is not, in one line. kSizes costs a
// status call per file; kHashes reads everything. Errors: none for a bad checkpoint, whatever is in it.
std::optional<std::string> find_damage(FileSystem& files, const std::string& folder, VerifyDepth depth);

struct SkippedCheckpoint {
  std::string path;
  std::string reason;
};

struct NewestCheckpoint {
  std::string path;  // empty if none verifies
  int64_t step = -1;
  RunIdentity run;
  std::vector<SkippedCheckpoint> skipped;  // newer ones that do not verify, newest first
};

// The newest checkpoint that verifies by hash and can be resumed from: the last step of the run that began
// last. Those whose manifest cannot be read belong to no run; they are skipped where their step is higher.
// Reads only. A folder that does not exist has none.
NewestCheckpoint find_newest_verified(FileSystem& files, const std::string& output_folder,
                                      VerifyDepth depth = VerifyDepth::kHashes);

struct ListedCheckpoint {
  std::string path;
  int64_t step = 0;
  std::optional<RunIdentity> run;  // nothing: its manifest is missing or cannot be read
  bool has_manifest = false;
};

// Every folder named checkpoint-N, by rising step; whole or damaged, ours or not. Reads manifests only.
std::vector<ListedCheckpoint> list_checkpoints(FileSystem& files, const std::string& output_folder);

// Writes a text that comes in pieces, and syncs the file (not its folder).
WrittenFile write_streamed_file(FileSystem& files, const std::string& path,
                                const std::function<void(const PutText& put)>& write);

// An opened checkpoint of a run. Does not verify hashes: find_newest_verified or find_damage did.
struct OpenCheckpoint {
  std::string path;
  int64_t step = 0;
  ModelFolder model;
  SafetensorsFile optimizer;
  RunIdentity run;
  std::string run_state_json;
};

// Errors: kBadData if a part is missing, of another schema version, or not JSON.
OpenCheckpoint open_checkpoint(FileSystem& files, const std::string& folder);

// Removes the oldest checkpoints of the run that saved `committed` until `limit` remain. `committed` (the one
// just saved) and `best` (may be empty) are never removed, so limit 1 may leave two. Damaged ones go first.
// Checkpoints of other runs and folders without a manifest that can be read are not counted and not touched.
// Does nothing unless `committed` verifies by size. Returns the paths removed. Requires: limit >= 1.
std::vector<std::string> rotate_checkpoints(FileSystem& files, const std::string& output_folder,
                                            int64_t limit, const std::string& committed,
                                            const std::string& best);

// Removes what a killed run left behind: temporary folders, links and files, and replaced checkpoints whose
// replacement is complete. Call it at the start of a run, before the first save. Returns the paths removed.
std::vector<std::string> remove_leftovers(FileSystem& files, const std::string& output_folder);

// Points output_folder/<link> ("best", "last") at a checkpoint of the same folder, atomically and durably.
// Returns false where the file system has no symbolic links or a folder bears the name; nothing is lost then
// but the convenience.
bool point_link(FileSystem& files, const std::string& output_folder, std::string_view link,
                const std::string& checkpoint_path);

// The step of a folder named checkpoint-N (any path before it); nothing for every other name.
std::optional<int64_t> checkpoint_step(std::string_view path);

}  // namespace plimsoll
