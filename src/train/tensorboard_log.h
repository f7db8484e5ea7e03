// Writes the records of a run as events of TensorBoard, with the tags of Hugging Face's TensorBoardCallback: eval_accuracy is
// "eval/accuracy", test_... is "test/...", and any other name has the prefix "train/". One thread uses an object.
#pragma once

#include <string>

#include "io/events/event_file.h"
#include "plimsoll/training.h"
#include "train/session.h"

namespace plimsoll {

// Returns true if --report_to asks for events of TensorBoard.
bool reports_to_tensorboard(const Arguments& arguments);

// Returns the tag of a value of a record: "train/loss" for "loss".
std::string tensorboard_tag(const std::string& name);

class TensorBoardLog {
 public:
  // Creates an event file in the folder of --logging_dir, by default <output_dir>/runs/<month><day>_<time>_<host> as Trainer does, and writes the
  // arguments and the configuration of the model as texts "args" and "model_config". A resumed run creates another file, as Trainer does.
  // The session has to outlive the log. Errors: FileError.
  explicit TensorBoardLog(const Session& session);

  // Appends the values of a record and its epoch at its step. Errors: FileError.
  void add(const LogRecord& record);

 private:
  EventFile file_;
};

}  // namespace plimsoll
