// Shows the progress of a run: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "plimsoll/report.h"
#include "plimsoll/training.h"

namespace plimsoll::cli {

class Progress : public Callback {
 public:
  // With `bar` a progress bar is drawn; without it, a line is printed every `logging_steps` steps. `plan_bytes` is the
  // planned memory, which is shown next to the speed.
  Progress(bool bar, int64_t plan_bytes);
  void on_train_begin(int64_t max_steps) override;
  void on_step_end(const StepInfo& info, TrainControl& control) override;
  void on_log(const LogRecord& record) override;
  void on_evaluate_progress(int64_t rows_done, int64_t num_rows) override;
  void on_save(const std::string& path) override;
  void on_warning(const std::string& text) override;
  void on_train_end() override;

 private:
  void clear_bar();
  ProgressContext context() const;

  bool bar_;
  bool bar_drawn_ = false;
  int64_t plan_bytes_;
  // The data of the last step, except that the numbers of tokens, seconds and operations are sums over all steps since the
  // last record of the log. The speed, the utilization and the remaining time are computed from these sums, as in log.jsonl.
  StepInfo recent_;
  int64_t num_recent_ = 0;
  bool starts_anew_ = true;  // true if the next step is the first one after a log record
  int64_t max_steps_ = 0;
  std::chrono::steady_clock::time_point start_;
};

// Returns the sizes of the weights and of the optimizer's states in a checkpoint, as text.
std::string describe_checkpoint_sizes(const std::string& path);
// Returns the number of checkpoints in a folder and their size, as text; "" if there are none.
std::string describe_saved_sizes(const std::string& output_dir);

}  // namespace plimsoll::cli
