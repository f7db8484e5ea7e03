// Saves checkpoints: at once, or in the background while training continues; alone, or together with the other ranks of a run.
//
// A save consists of steps: one rank alone has one step; several ranks create the files, write their parts and complete the
// checkpoint (io/ckpt/shared_checkpoint.h). After each step the ranks exchange its results, so that all of them continue, or all
// throw the error of the first rank that failed. In the background, a thread of each rank runs a step. The thread that drives the
// session exchanges the results, because only that thread may use the connections between the ranks: between two training steps it
// learns whether all ranks are ready, and then calls advance() on all of them.
//
// If the output folder is not on a file system that all ranks share, the first rank writes all files, and the others send it their
// slices; training then waits for each save.
//
// One thread drives an object. The destructor waits for the thread of a save. If this rank saves alone, the save is then complete.
// If several ranks save together, the save is given up unless it is in its last step.
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

// A checkpoint to be saved.
struct CheckpointOrder {
  std::string output_folder;
  int64_t step = 0;
  CheckpointContents contents;
  // Runs on the first rank once the checkpoint is complete, possibly in another thread: moves links, removes old checkpoints.
  std::function<void(const std::string& path)> after = {};
};

class CheckpointSaver {
 public:
  explicit CheckpointSaver(Session& session);
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Returns true if the run can save in the background: it has a buffer for that, and its ranks share the output folder. Every rank
  // calls it at the same time; the answer stays the same.
  bool saves_in_background(const std::string& output_folder);
  // Returns a warning if one rank writes all files of a run of several ranks, or if training waits although --async_save is set;
  // otherwise "".
  std::string remark(const std::string& output_folder);

  // Saves a checkpoint and returns its path. Errors: FileError, on every rank, with the rank, the file and the cause; what was
  // written is then removed, and earlier checkpoints are unchanged. Requires: !is_saving().
  std::string save(CheckpointOrder order);
  // Copies the tensors into the session's buffer and starts to save them. Requires: saves_in_background(), !is_saving();
  // `order` contains no function that reads the state of the run, except `fill` of tensors.
  void start(CheckpointOrder order);

  // Returns true from start() until the path is returned or an error is thrown. The same on all ranks.
  bool is_saving() const { return job_ != nullptr; }
  // Returns true if this rank has ended the current step of the save.
  bool is_ready() const;
  // Ends the current step on all ranks. Returns the path if the checkpoint is complete; otherwise the next step begins. Every rank
  // calls it at the same time. Cost: waits until all ranks are ready. Errors: as save(). Requires: is_saving().
  std::optional<std::string> advance();
  // Waits until the save has ended, if there is one, and returns the path. Every rank calls it at the same time. Errors: as save().
  std::optional<std::string> finish();

 private:
  enum class Step : uint8_t { kAlone, kCreateFiles, kWriteParts, kCommit };
  struct Job;

  // Returns true if files that the first rank writes into the folder are visible to all ranks.
  bool ranks_share(const std::string& output_folder);
  bool writes_together(const std::string& output_folder);
  std::unique_ptr<Job> make_job(CheckpointOrder order);
  void run_step(Job& job) const;
  static std::string commit(Job& job);
  void discard(Job& job) const;
  void start_thread(Job& job) const;
  // Exchanges the results of a step. Returns true if it was the last one.
  bool agree(Job& job);

  Session& session_;
  std::optional<bool> ranks_share_;
  std::unique_ptr<Job> job_;
};

}  // namespace plimsoll
