#include "train/run_state.h"

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "show/report/result_files.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// JSON has no number that is not finite; a metric may be one (the correlation with a constant).
Json number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}
// Errors: Json::exception for what number_json() does not write.
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

Json log_json(const std::vector<LogRecord>& history) {
  Json list = Json::array();
  for (const LogRecord& record : history) {
    Json entry = numbers_json(record.values);
    entry["step"] = record.step;
    entry["epoch"] = record.epoch;
    list.push_back(std::move(entry));
  }
  return list;
}

std::vector<LogRecord> parse_log(const Json& list) {
  std::vector<LogRecord> history;
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
    history.push_back(std::move(record));
  }
  return history;
}

// The states of callbacks under the names and in the form that Trainer gives them.
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

std::string run_state_json(const RunState& state) {
  Json json;
  json["schema_version"] = kRunStateSchemaVersion;
  json["step"] = state.step;
  json["max_steps"] = state.max_steps;
  json["micro_batches"] = state.micro_batches;
  json["position"] = {{"epoch", state.position.epoch}, {"index", state.position.index}};
  json["data"] = {{"hash", state.data_hash}, {"rows", state.data_rows}};
  json["epoch"] = state.epoch;
  json["tokens_seen"] = state.tokens_seen;
  json["total_flos"] = state.total_flos;
  json["loss_sum_since_log"] = state.loss_sum_since_log;
  json["steps_since_log"] = state.steps_since_log;
  json["loss_sum"] = state.loss_sum;
  json["seconds"] = state.seconds;
  json["best_metric"] = state.best_metric ? number_json(*state.best_metric) : Json(nullptr);
  json["best_step"] = state.best_step;
  json["best_checkpoint"] = state.best_checkpoint;
  json["schedule_state"] = numbers_json(state.schedule_state);
  json["callback_states"] = state.callback_states;
  json["log_history"] = log_json(state.log_history);
  json["arguments"] = Json::parse(arguments_json(state.arguments));
  return json.dump(2) + "\n";
}

RunState parse_run_state(std::string_view text, const std::string& source) {
  try {
    const Json json = Json::parse(text.begin(), text.end());
    if (json.at("schema_version").get<int>() != kRunStateSchemaVersion) {
      throw_error(ErrorCode::kBadData, "{}: schema version {}, this program reads {}", source,
                  json.at("schema_version").dump(), kRunStateSchemaVersion);
    }
    RunState state;
    state.step = json.at("step").get<int64_t>();
    state.max_steps = json.at("max_steps").get<int64_t>();
    state.micro_batches = json.at("micro_batches").get<int64_t>();
    state.position = {json.at("position").at("epoch").get<int64_t>(),
                      json.at("position").at("index").get<int64_t>()};
    state.epoch = json.at("epoch").get<double>();
    // Absent in checkpoints of earlier versions.
    if (const auto data = json.find("data"); data != json.end()) {
      state.data_hash = data->at("hash").get<uint64_t>();
      state.data_rows = data->at("rows").get<int64_t>();
    }
    state.tokens_seen = json.at("tokens_seen").get<int64_t>();
    state.total_flos = json.at("total_flos").get<double>();
    state.loss_sum_since_log = json.at("loss_sum_since_log").get<double>();
    state.steps_since_log = json.at("steps_since_log").get<int64_t>();
    state.loss_sum = json.at("loss_sum").get<double>();
    state.seconds = json.at("seconds").get<double>();
    if (!json.at("best_metric").is_null()) state.best_metric = number_of(json.at("best_metric"));
    state.best_step = json.at("best_step").get<int64_t>();
    state.best_checkpoint = json.at("best_checkpoint").get<std::string>();
    state.schedule_state = numbers_of(json.at("schedule_state"));
    state.callback_states = json.at("callback_states").get<std::map<std::string, std::string>>();
    state.log_history = parse_log(json.at("log_history"));
    state.arguments = arguments_from_json(json.at("arguments").dump(), source);
    return state;
  } catch (const Json::exception& error) {
    throw_error(ErrorCode::kBadData, "{}: not a run state ({})", source, error.what());
  }
}

std::string trainer_state_json(const RunState& state) {
  Json json;
  // Trainer counts no best step where it saves nothing.
  json["best_global_step"] =
      state.best_metric && state.arguments.save_strategy != "no" ? Json(state.best_step) : Json(nullptr);
  json["best_metric"] = state.best_metric ? Json(*state.best_metric) : Json(nullptr);
  json["best_model_checkpoint"] = state.best_checkpoint.empty()
                                      ? Json(nullptr)
                                      : Json(state.arguments.output_dir + "/" + state.best_checkpoint);
  json["epoch"] = state.epoch;
  json["eval_steps"] = state.arguments.eval_steps
                           ? Json(interval_steps(*state.arguments.eval_steps, state.max_steps))
                           : Json(500);
  json["global_step"] = state.step;
  json["is_hyper_param_search"] = false;
  json["is_local_process_zero"] = true;
  json["is_world_process_zero"] = true;
  json["log_history"] = log_history_json(state.log_history);
  json["logging_steps"] = interval_steps(state.arguments.logging_steps, state.max_steps);
  json["max_steps"] = state.max_steps;
  // Trainer leaves it at zero unless asked to count.
  json["num_input_tokens_seen"] =
      state.arguments.include_num_input_tokens_seen == "no" ? 0 : state.tokens_seen;
  json["num_train_epochs"] = state.num_epochs;
  json["save_steps"] = interval_steps(state.arguments.save_steps, state.max_steps);
  json["stateful_callbacks"] = stateful_callbacks(state);
  json["total_flos"] = state.total_flos;
  json["train_batch_size"] = state.arguments.per_device_train_batch_size;
  json["trial_name"] = nullptr;
  json["trial_params"] = nullptr;
  return trainer_state_text(json);
}

}  // namespace plimsoll
