// The events of a run, as lines of JSON on the file descriptor --event_fd, for the program that has started the run
// (the reader). docs/PYTHON.md describes every event. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll {
struct Arguments;
struct PlanReport;
class Metric;
}  // namespace plimsoll

namespace plimsoll::cli {

class RunEvents {
 public:
  RunEvents();
  ~RunEvents();
  RunEvents(const RunEvents&) = delete;
  RunEvents& operator=(const RunEvents&) = delete;

  // Opens the stream if --event_fd is given. Errors: kUsage for a descriptor that is not open for writing, and for
  // --event_replies if the descriptor is not a socket.
  void open(const Arguments& arguments, std::string_view command);

  // The functions below have no effect unless open() has opened the stream.
  //
  // Sends the plan of the run, before anything is allocated.
  void send_plan(const PlanReport& plan);
  // Sends warnings or notes, one event each. `kind`: "warning" or "note".
  void send_remarks(std::string_view kind, const std::vector<std::string>& texts);
  // Sends the final metrics of the training, an evaluation or a prediction. `split`: "train", "eval" or "predict".
  void send_results(std::string_view split, const MetricMap& metrics);
  // Sends the names of the labels in the order of their ids.
  void send_labels(const std::vector<std::string>& names);
  // Sends the path of a file or folder that the program has written.
  void send_file(std::string_view kind, const std::string& path);
  // Sends the last event and waits up to 2 s until the reader has taken all events.
  void end(int exit_code, const std::string& message);

  // Returns a callback for the training loop that sends events during training and obeys the
  // replies, or null if the stream is not open. The callback must not outlive this object.
  std::shared_ptr<Callback> callback();
  // Returns a metric that writes the logits and labels of each evaluation into the output folder, if --save_logits is
  // set, and asks the reader for further metrics, if --event_replies is set. Returns null without --save_logits. The
  // metric must not outlive this object.
  std::shared_ptr<Metric> logits_metric(const Arguments& arguments);

  struct Stream;

 private:
  std::unique_ptr<Stream> stream_;
};

// Throws if --event_replies is given, because a run of several processes does not support it. Errors: kUsage.
void require_no_replies(const Arguments& arguments);

}  // namespace plimsoll::cli
