#include "cli/run_events.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "cli/npy_file.h"
#include "cli/output.h"
#include "plimsoll/arguments.h"
#include "plimsoll/data.h"
#include "plimsoll/plan.h"

namespace plimsoll::cli {
namespace {

using nlohmann::json;

// The events after which the program waits for a reply of the reader.
enum class Replies : uint8_t { kNone, kEvaluations, kSteps };

struct Events {
  EventStream stream;
  Replies replies;
};
std::optional<Events> events;

json numbers_of(const MetricMap& values) {
  json object = json::object();
  // JSON has no words for numbers that are not finite.
  for (const auto& [name, value] : values) object[name] = std::isfinite(value) ? json(value) : json(nullptr);
  return object;
}

std::string line_of(std::string_view kind, json event) {
  event["event"] = kind;
  return event.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Says once that the reader is gone. The run continues.
void say_if_closed() {
  const std::string reason = events->stream.take_closing_reason();
  if (!reason.empty()) say_warning("--event_fd: " + reason + "; the run continues without events");
}

void send(std::string_view kind, json event) {
  if (!events) return;
  events->stream.write(line_of(kind, std::move(event)));
  say_if_closed();
}

void send_or_drop(std::string_view kind, json event) {
  if (!events) return;
  events->stream.write_or_drop(line_of(kind, std::move(event)));
  say_if_closed();
}

[[noreturn]] void refuse_reply(const std::string& line, const std::string& reason) {
  throw Error(ErrorCode::kUsage,
              "the reader of --event_fd replied '" + line.substr(0, 200) + "': " + reason +
                  "; a reply is a line such as {\"metrics\": {\"f1\": 0.5}, \"control\": [\"stop\"]}");
}

// Returns the reply in a line. Errors: kUsage for a line that is no reply.
json parsed_reply(const std::string& line) {
  json reply = json::parse(line, nullptr, false);
  if (!reply.is_object()) refuse_reply(line, "it is no JSON object");
  for (const auto& [name, value] : reply.items()) {
    if (name == "metrics" && value.is_object()) {
      for (const auto& [metric, number] : value.items()) {
        if (!number.is_number() && !number.is_null())
          refuse_reply(line, "the metric '" + metric + "' is no number");
      }
    } else if (name == "control" && value.is_array()) {
      for (const json& request : value) {
        constexpr std::array kRequests = {"stop", "evaluate", "save", "log"};
        const bool is_known = request.is_string() && std::ranges::any_of(kRequests, [&](const char* known) {
                                return request == known;
                              });
        if (!is_known) refuse_reply(line, request.dump() + " is none of stop, evaluate, save and log");
      }
    } else {
      refuse_reply(line, "'" + name + "' is neither an object 'metrics' nor a list 'control'");
    }
  }
  return reply;
}

// Waits for the reply to the event that was sent last. Returns an empty object if the reader has closed its end.
json wait_for_reply() {
  const std::optional<std::string> line = events->stream.wait_for_line();
  say_if_closed();
  return line ? parsed_reply(*line) : json::object();
}

void take_requests(const json& reply, TrainControl& control) {
  const auto requests = reply.find("control");
  if (requests == reply.end()) return;
  for (const json& request : *requests) {
    if (request == "stop") control.stop = true;
    if (request == "evaluate") control.evaluate = true;
    if (request == "save") control.save = true;
    if (request == "log") control.log = true;
  }
}

// Sends the events of a training.
class EventCallback : public Callback {
 public:
  void on_train_begin(int64_t max_steps) override { send("begin", {{"max_steps", max_steps}}); }

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
    if (events->replies == Replies::kSteps) {
      send("step", std::move(event));
      take_requests(wait_for_reply(), control);
    } else {
      send_or_drop("step", std::move(event));
      if (!events->stream.is_socket()) return;
      while (const std::optional<std::string> line = events->stream.read_line())
        take_requests(parsed_reply(*line), control);
      say_if_closed();
    }
  }

  void on_log(const LogRecord& record) override {
    json values = numbers_of(record.values);
    for (const auto& [name, word] : record.words) values[name] = word;
    send("log", {{"step", record.step}, {"epoch", record.epoch}, {"values", std::move(values)}});
  }

  void on_evaluate(const StepInfo& info, const MetricMap& metrics, TrainControl& control) override {
    send("evaluate", {{"step", info.step}, {"epoch", info.epoch}, {"metrics", numbers_of(metrics)}});
    if (events->replies != Replies::kNone) take_requests(wait_for_reply(), control);
  }

  void on_save(const std::string& path) override { send_file("save", path); }
  void on_warning(const std::string& text) override { send_remarks("warning", {text}); }
  void on_evaluate_progress(int64_t rows_done, int64_t num_rows) override {
    send_or_drop("progress", {{"rows", rows_done}, {"num_rows", num_rows}});
  }
};

// Writes the logits and labels of an evaluation, and asks the reader for its metrics.
class LogitsMetric : public Metric {
 public:
  explicit LogitsMetric(std::string folder) : folder_(std::move(folder)) {}

  std::string name() const override { return "logits_of_reader"; }
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
    send("metrics", std::move(event));
    std::map<std::string, double> values;
    if (!asks()) return values;
    const json reply = wait_for_reply();
    if (const auto metrics = reply.find("metrics"); metrics != reply.end()) {
      for (const auto& [name, value] : metrics->items())
        values[name] = value.is_null() ? std::nan("") : value.get<double>();
    }
    return values;
  }

 private:
  static bool asks() { return events && events->replies != Replies::kNone && events->stream.is_open(); }

  void begin(const MetricBatch& batch) {
    std::filesystem::create_directories(folder_);
    logits_.emplace(folder_ + "/eval_logits.npy", "<f4", batch.num_labels);
    if (batch.values.empty()) {
      labels_.emplace(folder_ + "/eval_labels.npy", "<i4", 0);
    } else {
      labels_.emplace(folder_ + "/eval_labels.npy", "<f4", batch.num_labels);
    }
    // If a sequence has several rows of logits, the labels are those of tokens, and the file of starts has the first row of each
    // sequence.
    const auto num_rows = batch.logits.size() / static_cast<size_t>(batch.num_labels);
    if (num_rows + 1 != batch.sequence_starts.size()) starts_.emplace(folder_ + "/eval_starts.npy", "<i8", 0);
  }

  std::string folder_;
  // The files of the evaluation in progress. values() completes them.
  std::optional<NpyFile> logits_;
  std::optional<NpyFile> labels_;
  std::optional<NpyFile> starts_;
  int64_t num_rows_ = 0;
};

}  // namespace

void open_events(const Arguments& arguments, std::string_view command) {
  const Replies replies = arguments.event_replies == "steps"         ? Replies::kSteps
                          : arguments.event_replies == "evaluations" ? Replies::kEvaluations
                                                                     : Replies::kNone;
  const std::string name = "--event_replies " + arguments.event_replies;
  if (!arguments.event_fd) {
    if (replies != Replies::kNone)
      throw Error(ErrorCode::kUsage, name + " needs --event_fd, a socket that receives the replies");
    return;
  }
  EventStream stream(static_cast<int>(*arguments.event_fd));
  if (replies != Replies::kNone && !stream.is_socket()) {
    throw Error(
        ErrorCode::kUsage,
        name + ": the file descriptor --event_fd " + std::to_string(*arguments.event_fd) +
            " is no socket, and replies need one; pass an end of socketpair(), or omit --event_replies");
  }
  // A reader that is gone must not end the run.
  std::signal(SIGPIPE, SIG_IGN);
  events.emplace(Events{.stream = std::move(stream), .replies = replies});
  send("start", {{"command", command}, {"output_dir", arguments.output_dir}});
}

void require_no_replies(const Arguments& arguments) {
  if (arguments.event_replies == "none") return;
  throw Error(ErrorCode::kUsage,
              "--event_replies " + arguments.event_replies +
                  ": a run of several processes takes no replies; omit it, or give --nproc_per_node 1");
}

void send_plan(const PlanReport& plan) {
  if (!events) return;
  // A text in JSON contains no line break. The line breaks and the indentation of the plan's JSON are therefore between values, and are
  // removed without parsing it.
  std::string line = line_of("plan", {{"fits", plan.fits}, {"refusal", plan.refusal}});
  line.back() = ',';
  line += "\"plan\":";
  bool is_indentation = false;
  for (const char c : plan.json) {
    is_indentation = c == '\n' || (is_indentation && c == ' ');
    if (!is_indentation) line += c;
  }
  events->stream.write(line + "}");
  say_if_closed();
}

void send_remarks(std::string_view kind, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) send(kind, {{"text", text}});
}

void send_results(std::string_view split, const MetricMap& metrics) {
  send("results", {{"split", split}, {"metrics", numbers_of(metrics)}});
}

void send_labels(const std::vector<std::string>& names) {
  send("labels", {{"names", names}});
}

void send_file(std::string_view kind, const std::string& path) {
  send(kind, {{"path", path}});
}

void end_events(int exit_code, const std::string& message) {
  if (!events) return;
  send("end", {{"exit_code", exit_code}, {"message", message}});
  events->stream.finish();
  events.reset();
}

std::shared_ptr<Callback> event_callback() {
  return events ? std::make_shared<EventCallback>() : nullptr;
}

std::shared_ptr<Metric> logits_metric(const Arguments& arguments) {
  return arguments.save_logits ? std::make_shared<LogitsMetric>(arguments.output_dir) : nullptr;
}

}  // namespace plimsoll::cli
