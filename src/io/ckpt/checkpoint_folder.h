// The steps in which a checkpoint gets its files and its name, for the functions that write a checkpoint: save_checkpoint() and
// SharedCheckpoint. checkpoint.h states what holds if the disk stops between any two of their calls.
//
// Internal to io/ckpt. Thread-safety: as save_checkpoint().
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "io/ckpt/manifest.h"

namespace plimsoll::internal {

// Return the folder of a complete checkpoint, and the folder in which its files are written before it is complete.
std::string checkpoint_path(const std::string& output_folder, int64_t step);
std::string temporary_checkpoint_path(const std::string& output_folder, int64_t step);

// Creates the empty temporary folder, and the output folder if necessary. Removes a temporary folder that exists.
void begin_checkpoint(FileSystem& files, const std::string& output_folder, int64_t step);

// Write and sync files that contain no tensors and do not belong to the model, and add them to the manifest. write_texts() writes
// `extra`, `streamed` and the state of the trainer; write_run_state() writes the state of the run.
void write_texts(FileSystem& files, const std::string& folder, const CheckpointContents& contents,
                 Manifest& manifest);
void write_run_state(FileSystem& files, const std::string& folder, const CheckpointContents& contents,
                     Manifest& manifest);

// Returns true if the checkpoint has a file with the states of the optimizer.
bool writes_optimizer(const CheckpointContents& contents);

// Writes the manifest, syncs the temporary folder and gives it its final name. Returns the path of the checkpoint.
std::string commit_checkpoint(FileSystem& files, const std::string& output_folder, const Manifest& manifest);

// Removes the temporary folder after a failure, to free space on a full disk. Ignores errors: the next run removes leftovers.
void discard_checkpoint(FileSystem& files, const std::string& output_folder, int64_t step);

// Returns the message for a checkpoint that was not saved.
std::string not_saved_message(const std::string& output_folder, int64_t step, std::string_view cause);

}  // namespace plimsoll::internal
