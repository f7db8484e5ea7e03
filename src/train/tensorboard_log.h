// Writes the log records of a run as TensorBoard events. Tags are those of Hugging Face's TensorBoardCallback: eval_accuracy becomes
// "eval/accuracy", test_... becomes "test/...", and all other names get the prefix "train/". An object is used by one thread.
#pragma once

#include <string>

#include "io/events/event_file.h"
#include "plimsoll/training.h"
#include "train/session.h"

namespace plimsoll {

// Returns true if --report_to requests TensorBoard events.
bool reports_to_tensorboard(const Arguments& arguments);

// Returns the tag of a value of a log record: "train/loss" for "loss".
std::string tensorboard_tag(const std::string& name);

class TensorBoardLog {
 public:
  // Creates an event file in the folder of --logging_dir, by default <output_dir>/runs/<month><day>_<time>_<host> as Trainer does, and
  // writes the arguments and the configuration of the model as texts "args" and "model_config". A resumed run creates another file, as
  // Trainer does. Requires: the session outlives the log. Errors: FileError.
  explicit TensorBoardLog(const Session& session);

  // Appends the values of a log record and its epoch, with the number of its step. Errors: FileError.
  void add(const LogRecord& record);

 private:
  EventFile file_;
};

}  // namespace plimsoll
