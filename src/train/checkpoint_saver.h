// Saves checkpoints, either while training waits or in the background while training continues. Either one rank writes all files, or all
// ranks of a run write them together.
//
// A save consists of steps (not training steps): if one rank saves alone, there is one step; several ranks create the files, write their
// parts and complete the checkpoint (io/ckpt/shared_checkpoint.h). After each step the ranks exchange its results, so that all of them
// continue, or all throw the error of the first rank that failed. In a background save, a thread of each rank runs these steps. The
// training thread exchanges the results, because only this thread may use the connections between the ranks: between two training steps
// it asks whether all ranks are ready, and then calls advance() on all of them.
//
// If the output folder is not on a file system that all ranks share, the first rank writes all files, and the others send it their
// slices; training then waits for each save.
//
// An object is used by one thread. The destructor waits for the thread of a background save. If this rank saves alone, the checkpoint is
// then complete. If several ranks save together, the save is abandoned unless it is in its last step.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/ckpt/shared_checkpoint.h"
#include "train/session.h"

namespace plimsoll {

// Describes a checkpoint to be saved.
struct CheckpointOrder {
  std::string output_folder;
  int64_t step = 0;
  CheckpointContents contents;
  // Called on the first rank once the checkpoint is complete, possibly in another thread. It moves links and removes old checkpoints.
  std::function<void(const std::string& path)> after = {};
};

class CheckpointSaver {
 public:
  explicit CheckpointSaver(Session& session);
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Returns true if the run can save in the background: it has a buffer for this, and its ranks share the output folder. All ranks call
  // it at the same time; the result does not change during a run.
  bool saves_in_background(const std::string& output_folder);
  // Returns a warning if one rank writes all files of a run of several ranks, or if training waits for saves although --async_save is
  // set. Returns "" otherwise.
  std::string remark(const std::string& output_folder);

  // Saves a checkpoint and returns its path. Errors: FileError on every rank, naming the rank, the file and the cause. After an error the
  // written files are removed, and earlier checkpoints are unchanged. Requires: !is_saving().
  std::string save(CheckpointOrder order);
  // Copies the tensors into the session's buffer and starts to save them in the background. Requires: saves_in_background(), !is_saving();
  // `order` contains no function that reads the state of the run, except the functions TensorSource::fill of its tensors.
  void start(CheckpointOrder order);

  // Returns true from start() until advance() or finish() returns the path or throws an error. The result is the same on all ranks.
  bool is_saving() const { return job_ != nullptr; }
  // Returns true if this rank has completed the current step of the background save.
  bool is_ready() const;
  // Ends the current step of the background save on all ranks. Returns the path if the checkpoint is complete; otherwise the next step
  // begins. All ranks call it at the same time. Cost: waits until all ranks are ready. Errors: as save(). Requires: is_saving().
  std::optional<std::string> advance();
  // Waits until the background save has ended, if there is one, and returns the path. All ranks call it at the same time. Errors: as
  // save().
  std::optional<std::string> finish();

 private:
  enum class Step : uint8_t { kAlone, kCreateFiles, kWriteParts, kCommit };
  struct Job;

  // Returns true if all ranks can see files that the first rank writes into the folder.
  bool ranks_share(const std::string& output_folder);
  bool writes_together(const std::string& output_folder);
  std::unique_ptr<Job> make_job(CheckpointOrder order);
  void run_step(Job& job) const;
  static std::string commit(Job& job);
  void discard(Job& job) const;
  void start_thread(Job& job) const;
  // Exchanges the results of a step of the save among the ranks. Returns true if it was the last step.
  bool agree(Job& job);

  Session& session_;
  std::optional<bool> ranks_share_;
  std::unique_ptr<Job> job_;
};

}  // namespace plimsoll
