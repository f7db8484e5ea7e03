#include "run/run_state.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/guarded_json.h"
#include "show/report/result_files.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Writes a number that may be NaN or infinite, which JSON cannot represent. A correlation with a constant, for example, is NaN.
Json number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}
// Reads a number that number_json() wrote. Errors: Json::exception for a value that number_json() does not write.
double number_of(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const auto& text = json.get_ref<const std::string&>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return kInfinity;
  if (text == "-Infinity") return -kInfinity;
  return json.get<double>();
}

Json numbers_json(const std::map<std::string, double>& numbers) {
  Json json = Json::object();
  for (const auto& [name, value] : numbers) json[name] = number_json(value);
  return json;
}
std::map<std::string, double> numbers_of(const Json& json) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : json.items()) numbers[name] = number_of(value);
  return numbers;
}

// Reads the log from a run state in the format of version 1, which contains it.
LogHistory parse_log(const Json& list) {
  LogHistory history;
  for (const Json& entry : list) {
    LogRecord record;
    for (const auto& [key, value] : entry.items()) {
      if (key == "step") {
        record.step = value.get<int64_t>();
      } else if (key == "epoch") {
        record.epoch = value.get<double>();
      } else {
        record.values[key] = number_of(value);
      }
    }
    history.push_back(record);
  }
  return history;
}

// Returns the states of callbacks, with the names and in the format that Trainer uses.
Json stateful_callbacks(const RunState& state) {
  Json json;
  json["TrainerControl"] = {{"args",
                             {{"should_epoch_stop", false},
                              {"should_evaluate", false},
                              {"should_log", false},
                              {"should_save", state.has_checkpoint},
                              {"should_training_stop", state.saved_at_end}}},
                            {"attributes", Json::object()}};
  if (const auto it = state.callback_states.find("EarlyStopping"); it != state.callback_states.end()) {
    const Json early = Json::parse(it->second);
    json["EarlyStoppingCallback"] = {{"args",
                                      {{"early_stopping_patience", early.at("patience")},
                                       {"early_stopping_threshold", early.at("threshold")}}},
                                     {"attributes", {{"early_stopping_patience_counter", early.at("bad")}}}};
  }
  return json;
}

}  // namespace

RunIdentity new_run_identity() {
  const auto now = std::chrono::system_clock::now();
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::random_device random;
  const uint64_t words[] = {random(), random(), static_cast<uint64_t>(since)};
  return {
      .id = to_hex(hash64(std::as_bytes(std::span(words)))),
      .started = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                             utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, since % 1000000)};
}

std::string run_state_json(const RunState& state) {
  Json json;
  json["schema_version"] = kRunStateSchemaVersion;
  json["run"] = {{"id", state.run.id}, {"started", state.run.started}};
  json["step"] = state.step;
  json["max_steps"] = state.max_steps;
  json["micro_batches"] = state.micro_batches;
  json["states_begin"] = state.states_begin;
  json["position"] = {{"epoch", state.position.epoch}, {"index", state.position.index}};
  json["data"] = {{"hash", state.data.hash}, {"rows", state.data.rows}};
  json["epoch"] = state.epoch;
  json["tokens_seen"] = state.totals.tokens;
  json["total_flos"] = state.totals.flos;
  json["loss_sum_since_log"] = state.since_log.loss_sum;
  json["steps_since_log"] = state.since_log.steps;
  json["loss_sum"] = state.totals.loss_sum;
  json["seconds"] = state.totals.seconds;
  json["best_metric"] = state.best.metric ? number_json(*state.best.metric) : Json(nullptr);
  json["best_step"] = state.best.step;
  json["best_checkpoint"] = state.best.checkpoint;
  json["schedule_state"] = numbers_json(state.schedule_state);
  json["callback_states"] = state.callback_states;
  json["due"] = {{"evaluation", state.evaluation_is_due}, {"save", state.save_is_due}};
  json["arguments"] = Json::parse(arguments_json(state.arguments));
  return json.dump(2) + "\n";
}

RunState parse_run_state(std::string_view text, const std::string& source) {
  try {
    const Json json = parse_json(text, source, {.max_bytes = kMaxRunStateBytes});
    const int version = json.at("schema_version").get<int>();
    if (version != 1 && version != kRunStateSchemaVersion) {
      throw_error(ErrorCode::kBadData,
                  "{}: the schema version is {}, but Plimsoll reads 1 and {}; use the version that wrote it",
                  source, version, kRunStateSchemaVersion);
    }
    RunState state;
    if (version == 1) {
      state.log_history = parse_log(json.at("log_history"));
    } else {
      state.run = {json.at("run").at("id").get<std::string>(),
                   json.at("run").at("started").get<std::string>()};
      state.evaluation_is_due = json.at("due").at("evaluation").get<bool>();
      state.save_is_due = json.at("due").at("save").get<bool>();
    }
    state.step = json.at("step").get<int64_t>();
    state.max_steps = json.at("max_steps").get<int64_t>();
    state.micro_batches = json.at("micro_batches").get<int64_t>();
    state.position = {json.at("position").at("epoch").get<int64_t>(),
                      json.at("position").at("index").get<int64_t>()};
    state.epoch = json.at("epoch").get<double>();
    // Checkpoints of earlier versions do not contain states_begin.
    state.states_begin = json.value("states_begin", int64_t{0});
    if (const auto data = json.find("data"); data != json.end()) {
      state.data.hash = data->at("hash").get<uint64_t>();
      state.data.rows = data->at("rows").get<int64_t>();
    }
    state.totals.tokens = json.at("tokens_seen").get<int64_t>();
    state.totals.flos = json.at("total_flos").get<double>();
    state.since_log.loss_sum = json.at("loss_sum_since_log").get<double>();
    state.since_log.steps = json.at("steps_since_log").get<int64_t>();
    state.totals.loss_sum = json.at("loss_sum").get<double>();
    state.totals.seconds = json.at("seconds").get<double>();
    if (!json.at("best_metric").is_null()) state.best.metric = number_of(json.at("best_metric"));
    state.best.step = json.at("best_step").get<int64_t>();
    state.best.checkpoint = json.at("best_checkpoint").get<std::string>();
    state.schedule_state = numbers_of(json.at("schedule_state"));
    state.callback_states = json.at("callback_states").get<std::map<std::string, std::string>>();
    state.arguments = arguments_from_json(json.at("arguments").dump(), source);
    return state;
  } catch (const Json::exception& error) {
    throw_error(ErrorCode::kBadData,
                "{}: this is not the state of a run ({}); the checkpoint is damaged, choose another one",
                source, error.what());
  }
}

void write_log(const LogHistory& history, const PutText& put) {
  for (const LogRecord& record : history) put(log_line(record));
}

LogHistory read_log(FileSystem& files, const std::string& path) {
  LogHistory history;
  const auto file = files.open_read(path);
  std::string text;
  int64_t line = 0;
  for (int64_t offset = 0; offset < file->size_bytes();) {
    const size_t kept = text.size();
    text.resize(kept + static_cast<size_t>(std::min(kFileChunkBytes, file->size_bytes() - offset)));
    const auto piece = std::as_writable_bytes(std::span(text)).subspan(kept);
    read_exactly(*file, piece, offset, "the log");
    offset += std::ssize(piece);
    size_t begin = 0;
    for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      ++line;
      try {
        history.push_back(parse_log_line(std::string_view(text).substr(begin, end - begin)));
      } catch (const Error& error) {
        throw_error(ErrorCode::kBadData, "{}:{}: this is not a line of a run's log ({}); remove it", path,
                    line, error.what());
      }
    }
    text.erase(0, begin);
  }
  return history;
}

std::string best_checkpoint_path(const RunState& state) {
  if (state.best.checkpoint.empty() || state.best.checkpoint.find('/') != std::string::npos) {
    return state.best.checkpoint;
  }
  return join_path(state.arguments.output_dir, state.best.checkpoint);
}

void write_trainer_state(const RunState& state, const PutText& put) {
  Json json;
  // The best step is recorded only if --save_strategy is not "no", as in Trainer.
  json["best_global_step"] =
      state.best.metric && state.arguments.save_strategy != "no" ? Json(state.best.step) : Json(nullptr);
  json["best_metric"] = state.best.metric ? Json(*state.best.metric) : Json(nullptr);
  json["best_model_checkpoint"] =
      state.best.checkpoint.empty() ? Json(nullptr) : Json(best_checkpoint_path(state));
  json["epoch"] = state.epoch;
  json["eval_steps"] = state.arguments.eval_steps
                           ? Json(interval_steps(*state.arguments.eval_steps, state.max_steps))
                           : Json(500);
  json["global_step"] = state.step;
  json["is_hyper_param_search"] = false;
  json["is_local_process_zero"] = true;
  json["is_world_process_zero"] = true;
  json["logging_steps"] = interval_steps(logging_interval(state.arguments), state.max_steps);
  json["max_steps"] = state.max_steps;
  // The number of tokens is zero unless --include_num_input_tokens_seen is set, as in Trainer.
  json["num_input_tokens_seen"] =
      state.arguments.include_num_input_tokens_seen == "no" ? 0 : state.totals.tokens;
  json["num_train_epochs"] = state.num_epochs;
  json["save_steps"] = interval_steps(state.arguments.save_steps, state.max_steps);
  json["stateful_callbacks"] = stateful_callbacks(state);
  json["total_flos"] = state.totals.flos;
  json["train_batch_size"] = state.arguments.per_device_train_batch_size;
  json["trial_name"] = nullptr;
  json["trial_params"] = nullptr;
  write_trainer_state(std::move(json), state.log_history, put);
}

}  // namespace plimsoll
