// The operations that save_checkpoint() and SharedCheckpoint use to write a checkpoint: create a temporary folder, write files into it,
// and rename it. checkpoint.h states the invariants that hold if the process or the disk stops between any two system calls.
//
// Internal to io/ckpt. Thread-safety: one writer per output folder.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "io/ckpt/manifest.h"

namespace plimsoll::internal {

// checkpoint_path() returns the path of a complete checkpoint. temporary_checkpoint_path() returns the path of the folder in which its
// files are written before this folder gets its final name.
std::string checkpoint_path(const std::string& output_folder, int64_t step);
std::string temporary_checkpoint_path(const std::string& output_folder, int64_t step);

// Creates an empty temporary folder, and the output folder if necessary. An existing temporary folder is removed first.
void begin_checkpoint(FileSystem& files, const std::string& output_folder, int64_t step);

// Write and sync files that contain no tensors and do not belong to the model, and add them to the manifest. write_texts() writes
// contents.extra, contents.streamed and trainer_state_json; write_run_state() writes run_state_json.
void write_texts(FileSystem& files, const std::string& folder, const CheckpointContents& contents,
                 Manifest& manifest);
void write_run_state(FileSystem& files, const std::string& folder, const CheckpointContents& contents,
                     Manifest& manifest);

// Returns true if the checkpoint has a file with the states of the optimizer.
bool writes_optimizer(const CheckpointContents& contents);

// Writes the manifest, syncs the temporary folder and renames it to the path of the checkpoint, which is returned.
std::string commit_checkpoint(FileSystem& files, const std::string& output_folder, const Manifest& manifest);

// Removes the temporary folder after a failure, to free space on a full disk. Errors are ignored, because the next run removes leftovers.
void discard_checkpoint(FileSystem& files, const std::string& output_folder, int64_t step);

// Returns the error message for a checkpoint that could not be saved.
std::string not_saved_message(const std::string& output_folder, int64_t step, std::string_view cause);

}  // namespace plimsoll::internal
