#include "cli/run_events.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/event_stream.h"
#include "cli/interrupt.h"
#include "cli/npy_file.h"
#include "cli/output.h"
#include "plimsoll/arguments.h"
#include "plimsoll/data.h"
#include "plimsoll/event_reply.h"
#include "plimsoll/plan.h"

namespace plimsoll::cli {
namespace {

using nlohmann::json;

// The events for which the program waits for a reply: no events, only those of evaluations, or those of evaluations and of steps.
enum class Replies : uint8_t { kNone, kEvaluations, kSteps };

json numbers_of(const MetricMap& values) {
  json object = json::object();
  // JSON cannot represent numbers that are not finite, so they are written as null.
  for (const auto& [name, value] : values) object[name] = std::isfinite(value) ? json(value) : json(nullptr);
  return object;
}

std::string line_of(std::string_view kind, json event) {
  event["event"] = kind;
  return event.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

// The open stream, the id of the last event that needs a reply, and the requests that the reader has sent.
struct RunEvents::Stream {
  EventStream lines;
  Replies replies = Replies::kNone;
  int64_t last_id = 0;         // id of the last event that asked for a reply
  TrainControl deferred = {};  // requests of the reader that are applied at the end of the next step

  bool asks() const { return replies != Replies::kNone && lines.is_open(); }

  // Prints a warning, once, if the reader has closed its end of the stream. The run continues.
  void say_if_closed() {
    const std::string reason = lines.take_closing_reason();
    if (!reason.empty()) say_warning("--event_fd: " + reason + "; the run continues without events");
  }
  void send(std::string_view kind, json event) {
    lines.write(line_of(kind, std::move(event)));
    say_if_closed();
  }
  void send_or_drop(std::string_view kind, json event) {
    lines.write_or_drop(line_of(kind, std::move(event)));
    say_if_closed();
  }

  // Sends an event with an id, and waits for the reply to it. Returns nothing if the reader has closed its end, or if a signal asks
  // the run to stop.
  std::optional<EventReply> ask(std::string_view kind, json event) {
    event["id"] = ++last_id;
    send(kind, std::move(event));
    while (const std::optional<std::string> line = lines.wait_for_line(was_asked_to_stop)) {
      EventReply reply = parse_event_reply(*line);
      if (reply.id == last_id) {
        if (reply.metrics && kind != "metrics")
          refuse_event_reply(*line, "only the reply to an event 'metrics' may have metrics");
        return reply;
      }
      take_unasked(reply, *line);
    }
    say_if_closed();
    return std::nullopt;
  }
  // Handles lines that the reader has sent without being asked.
  void take_lines() {
    if (!lines.is_socket()) return;
    while (const std::optional<std::string> line = lines.read_line())
      take_unasked(parse_event_reply(*line), *line);
    say_if_closed();
  }

 private:
  void take_unasked(const EventReply& reply, const std::string& line) {
    if (reply.id && (*reply.id > last_id || *reply.id < 1))
      refuse_event_reply(line, "no event had this id; the last one was " + std::to_string(last_id));
    if (reply.id) {
      say_warning("--event_fd: a reply to the event with id " + std::to_string(*reply.id) +
                  " was dropped, because the run no longer waits for it");
      return;
    }
    if (reply.metrics)
      refuse_event_reply(line, "a reply with metrics needs the id of the event 'metrics' that asks for them");
    add_requests(reply.control, deferred);
  }
};

namespace {

// Sends the events of a training: the training loop calls this object, for example at the end of each step.
class EventCallback : public Callback {
 public:
  explicit EventCallback(RunEvents::Stream& stream) : stream_(stream) {}

  void on_train_begin(int64_t max_steps) override { stream_.send("begin", {{"max_steps", max_steps}}); }

  void on_step_end(const StepInfo& info, TrainControl& control) override {
    json event = {{"step", info.step},
                  {"max_steps", info.max_steps},
                  {"epoch", info.epoch},
                  {"loss", info.loss},
                  {"grad_norm", info.grad_norm},
                  {"learning_rate", info.learning_rate},
                  {"num_tokens", info.num_tokens},
                  {"num_sequences", info.num_sequences},
                  {"step_ms", info.step_ms}};
    if (stream_.replies == Replies::kSteps) {
      if (const auto reply = stream_.ask("step", std::move(event))) add_requests(reply->control, control);
    } else {
      stream_.send_or_drop("step", std::move(event));
      stream_.take_lines();
    }
    add_requests(std::exchange(stream_.deferred, {}), control);
  }

  void on_log(const LogRecord& record) override {
    json values = numbers_of(record.values);
    for (const auto& [name, word] : record.words) values[name] = word;
    stream_.send("log", {{"step", record.step}, {"epoch", record.epoch}, {"values", std::move(values)}});
  }

  void on_evaluate(const StepInfo& info, const MetricMap& metrics, TrainControl& control) override {
    json event = {{"step", info.step}, {"epoch", info.epoch}, {"metrics", numbers_of(metrics)}};
    if (stream_.replies == Replies::kNone) {
      stream_.send("evaluate", std::move(event));
    } else if (const auto reply = stream_.ask("evaluate", std::move(event))) {
      add_requests(reply->control, control);
    }
  }

  void on_save(const std::string& path) override { stream_.send("save", {{"path", path}}); }
  void on_warning(const std::string& text) override { stream_.send("warning", {{"text", text}}); }
  void on_evaluate_progress(int64_t rows_done, int64_t num_rows) override {
    stream_.send_or_drop("progress", {{"rows", rows_done}, {"num_rows", num_rows}});
  }

 private:
  RunEvents::Stream& stream_;
};

// A metric that writes the logits and labels of an evaluation to files, and asks the reader for metrics computed from
// them.
class LogitsMetric : public Metric {
 public:
  // `stream` is null without --event_fd.
  LogitsMetric(std::string folder, RunEvents::Stream* stream) : folder_(std::move(folder)), stream_(stream) {}

  std::string name() const override { return "logits_of_reader"; }
  // While the reader replies to evaluations, its replies contain the names of the metrics, so these are not known in advance.
  // After the reader has closed its end, there are no such metrics.
  bool has_fixed_names() const override { return !asks(); }
  double value() const override { return 0; }

  void reset() override {
    logits_.reset();
    labels_.reset();
    starts_.reset();
    num_rows_ = 0;
  }

  void add(const MetricBatch& batch) override {
    if (!logits_) begin(batch);
    logits_->append(batch.logits);
    if (batch.values.empty()) {
      labels_->append(batch.classes);
    } else {
      labels_->append(batch.values);
    }
    if (starts_) {
      for (size_t i = 0; i + 1 < batch.sequence_starts.size(); ++i) {
        const int64_t start = num_rows_ + batch.sequence_starts[i];
        starts_->append(std::span(&start, 1));
      }
    }
    num_rows_ += static_cast<int64_t>(batch.logits.size()) / batch.num_labels;
  }

  std::map<std::string, double> values() override {
    if (!logits_) return {};
    json event = {{"logits", logits_->finish()}, {"labels", labels_->finish()}};
    if (starts_) {
      starts_->append(std::span(&num_rows_, 1));
      event["starts"] = starts_->finish();
    }
    if (!asks()) {
      if (stream_ != nullptr) stream_->send("metrics", std::move(event));
      return {};
    }
    std::optional<EventReply> reply = stream_->ask("metrics", std::move(event));
    if (!reply && was_asked_to_stop()) {
      throw Error(ErrorCode::kInterrupted,
                  "the run was interrupted while it waited for the metrics of the reader of --event_fd; "
                  "start the command again");
    }
    if (!reply) return {};
    add_requests(reply->control, stream_->deferred);
    return std::move(reply->metrics).value_or(MetricMap{});
  }

 private:
  bool asks() const { return stream_ != nullptr && stream_->asks(); }

  void begin(const MetricBatch& batch) {
    std::filesystem::create_directories(folder_);
    logits_.emplace(folder_ + "/eval_logits.npy", "<f4", batch.num_labels);
    if (batch.values.empty()) {
      labels_.emplace(folder_ + "/eval_labels.npy", "<i4", 0);
    } else {
      labels_.emplace(folder_ + "/eval_labels.npy", "<f4", batch.num_labels);
    }
    // If there are more rows of logits than sequences, each row belongs to a token. eval_starts.npy
    // then contains the index of the first row of each sequence.
    const auto num_rows = batch.logits.size() / static_cast<size_t>(batch.num_labels);
    if (num_rows + 1 != batch.sequence_starts.size()) starts_.emplace(folder_ + "/eval_starts.npy", "<i8", 0);
  }

  std::string folder_;
  RunEvents::Stream* stream_;
  // The files for the logits, the labels and the row starts of the current evaluation; values() finishes them.
  std::optional<NpyFile> logits_;
  std::optional<NpyFile> labels_;
  std::optional<NpyFile> starts_;
  int64_t num_rows_ = 0;
};

}  // namespace

RunEvents::RunEvents() = default;
RunEvents::~RunEvents() = default;

void RunEvents::open(const Arguments& arguments, std::string_view command) {
  const Replies replies = arguments.event_replies == "steps"         ? Replies::kSteps
                          : arguments.event_replies == "evaluations" ? Replies::kEvaluations
                                                                     : Replies::kNone;
  const std::string name = "--event_replies " + arguments.event_replies;
  if (!arguments.event_fd) {
    if (replies != Replies::kNone)
      throw Error(ErrorCode::kUsage, name + " needs --event_fd, a socket that receives the replies");
    return;
  }
  EventStream lines(static_cast<int>(*arguments.event_fd));
  if (replies != Replies::kNone && !lines.is_socket()) {
    throw Error(
        ErrorCode::kUsage,
        name + ": the file descriptor --event_fd " + std::to_string(*arguments.event_fd) +
            " is no socket, and replies need one; pass an end of socketpair(), or omit --event_replies");
  }
  // Without SIGPIPE, the run continues if the reader has closed its end.
  std::signal(SIGPIPE, SIG_IGN);
  stream_ = std::make_unique<Stream>(Stream{.lines = std::move(lines), .replies = replies});
  stream_->send("start", {{"command", command}, {"output_dir", arguments.output_dir}});
}

void RunEvents::send_plan(const PlanReport& plan) {
  if (!stream_) return;
  // The plan is a JSON text with line breaks, but an event is a single line. Strings in JSON contain no line breaks, so
  // the line breaks and the indentation can be removed without parsing the text.
  std::string line = line_of("plan", {{"fits", plan.fits}, {"refusal", plan.refusal}});
  line.back() = ',';
  line += "\"plan\":";
  bool is_indentation = false;
  for (const char c : plan.json) {
    is_indentation = c == '\n' || (is_indentation && c == ' ');
    if (!is_indentation) line += c;
  }
  stream_->lines.write(line + "}");
  stream_->say_if_closed();
}

void RunEvents::send_remarks(std::string_view kind, const std::vector<std::string>& texts) {
  if (!stream_) return;
  for (const std::string& text : texts) stream_->send(kind, {{"text", text}});
}

void RunEvents::send_results(std::string_view split, const MetricMap& metrics) {
  if (stream_) stream_->send("results", {{"split", split}, {"metrics", numbers_of(metrics)}});
}

void RunEvents::send_labels(const std::vector<std::string>& names) {
  if (stream_) stream_->send("labels", {{"names", names}});
}

void RunEvents::send_file(std::string_view kind, const std::string& path) {
  if (stream_) stream_->send(kind, {{"path", path}});
}

void RunEvents::end(int exit_code, const std::string& message) {
  if (!stream_) return;
  stream_->send("end", {{"exit_code", exit_code}, {"message", message}});
  stream_->lines.finish();
  stream_.reset();
}

std::shared_ptr<Callback> RunEvents::callback() {
  return stream_ ? std::make_shared<EventCallback>(*stream_) : nullptr;
}

std::shared_ptr<Metric> RunEvents::logits_metric(const Arguments& arguments) {
  return arguments.save_logits ? std::make_shared<LogitsMetric>(arguments.output_dir, stream_.get())
                               : nullptr;
}

void require_no_replies(const Arguments& arguments) {
  if (arguments.event_replies == "none") return;
  throw Error(ErrorCode::kUsage,
              "--event_replies " + arguments.event_replies +
                  ": a run of several processes takes no replies; omit it, or give --nproc_per_node 1");
}

}  // namespace plimsoll::cli
