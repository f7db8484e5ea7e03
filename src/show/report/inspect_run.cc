#include "base/guarded_json.h"
#include "show/report/result_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/units.h"
#include "show/report/plan_table.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Files that a run writes are smaller than this limit. A larger file is assumed to be training data.
constexpr int64_t kMostBytes = int64_t{64} << 20;

std::string read_small_file(const std::string& path) {
  const auto file = posix_file_system().open_read(path);
  const int64_t bytes = file->size_bytes();
  if (bytes <= 0 || bytes > kMostBytes) return {};
  std::string text(static_cast<size_t>(bytes), '\0');
  const int64_t read = file->pread(std::as_writable_bytes(std::span(text)), 0);
  text.resize(static_cast<size_t>(std::max<int64_t>(read, 0)));
  return text;
}

bool is_number_or_null(const Json& value) {
  return value.is_number() || value.is_null();
}

// In a log of a run, all values except gpu_throttle are numbers. A file with any other text is therefore training data
// and not a log.
bool is_log_record(const Json& record) {
  if (!record.is_object() || !record.contains("step") || !record.contains("epoch") || record.size() <= 2)
    return false;
  for (const auto& [key, value] : record.items()) {
    if (!is_number_or_null(value) && !(value.is_string() && key.starts_with("gpu_"))) return false;
  }
  return true;
}

// Returns the log records in a text with one record per line, or nothing if a line is not a log record.
std::vector<Json> log_records(std::string_view text) {
  std::vector<Json> records;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \r\t") == std::string_view::npos) continue;
    Json record = find_json(line);
    if (!is_log_record(record)) return {};
    records.push_back(std::move(record));
  }
  return records;
}

struct Course {
  double first = 0, last = 0, lowest = 0, highest = 0;
  int64_t first_step = 0, last_step = 0, lowest_step = 0, highest_step = 0;
  int64_t count = 0;
  int64_t not_finite = 0;

  void add(int64_t step, double value) {
    if (!std::isfinite(value)) {
      ++not_finite;
      return;
    }
    if (count == 0) {
      first = lowest = highest = value;
      first_step = lowest_step = highest_step = step;
    }
    if (value < lowest) {
      lowest = value;
      lowest_step = step;
    }
    if (value > highest) {
      highest = value;
      highest_step = step;
    }
    last = value;
    last_step = step;
    ++count;
  }
};

std::string course_text(const std::string& name, const Course& course) {
  if (course.count == 0)
    return fmt::format("  {:<20} never finite ({})\n", name, counted(course.not_finite, "time"));
  std::string text = fmt::format("  {:<20} {:.6g} at step {}, {:.6g} at step {}", name, course.first,
                                 course.first_step, course.last, course.last_step);
  const bool falls = name.ends_with("loss");
  const bool has_best = name != "learning_rate" && name != "grad_norm";
  if (has_best && course.count > 1)
    text +=
        fmt::format("; {} {:.6g} at step {}", falls ? "lowest" : "highest",
                    falls ? course.lowest : course.highest, falls ? course.lowest_step : course.highest_step);
  if (course.not_finite > 0) text += fmt::format("; {} not finite", counted(course.not_finite, "time"));
  return text + "\n";
}

// Describes how loss, learning rate and the metrics of evaluations changed over the run. Omits figures about speed.
std::string log_text(const std::vector<Json>& records) {
  std::map<std::string, Course> courses;
  int64_t last_step = 0;
  double last_epoch = 0;
  int64_t steps_logged = 0;
  int64_t evaluations = 0;
  const auto is_speed = [](const std::string& name) {
    return name.find("_per_second") != std::string::npos || name.find("_runtime") != std::string::npos ||
           name.ends_with("_fraction") || name.find("_mem_") != std::string::npos ||
           name.find("_samples") != std::string::npos;
  };
  for (const Json& record : records) {
    const auto step = static_cast<int64_t>(record["step"].is_number() ? record["step"].get<double>() : 0.0);
    last_step = std::max(last_step, step);
    if (record["epoch"].is_number()) last_epoch = std::max(last_epoch, record["epoch"].get<double>());
    steps_logged += record.contains("loss") ? 1 : 0;
    evaluations += record.contains("eval_loss") ? 1 : 0;
    for (const auto& [name, value] : record.items()) {
      const bool is_wanted = name == "loss" || name == "grad_norm" || name == "learning_rate" ||
                             (name.starts_with("eval_") && !is_speed(name));
      if (is_wanted) courses[name].add(step, value.is_number() ? value.get<double>() : NAN);
    }
  }
  std::string text =
      fmt::format("the log of a run: {} of steps, {}, to step {}, epoch {:.2f}\n",
                  counted(steps_logged, "record"), counted(evaluations, "evaluation"), last_step, last_epoch);
  for (const char* name : {"loss", "grad_norm", "learning_rate"}) {
    if (courses.contains(name)) text += course_text(name, courses[name]);
  }
  for (const auto& [name, course] : courses) {
    if (name.starts_with("eval_")) text += course_text(name, course);
  }
  for (const Json& record : records) {
    if (!record.contains("train_loss") || !record["train_loss"].is_number()) continue;
    text += fmt::format("  ended: mean loss {:.6g}", record["train_loss"].get<double>());
    if (record.contains("train_runtime") && record["train_runtime"].is_number())
      text += fmt::format(" in {:.1f} s", record["train_runtime"].get<double>());
    text += "\n";
  }
  return text;
}

int64_t integer(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_number() ? static_cast<int64_t>(it->get<double>()) : 0;
}

std::string words_of(std::string key) {
  std::ranges::replace(key, '_', ' ');
  return key;
}

std::string plan_text(const Json& plan) {
  std::string text =
      fmt::format("a plan: {:.1f} MiB in total\n", static_cast<double>(integer(plan, "total_bytes")) / kMiB);
  if (const auto request = plan.find("request"); request != plan.end() && request->is_object()) {
    text += fmt::format("  {} on {}, optimizer {}, {}\n", request->value("model", std::string("a model")),
                        request->value("device", std::string("a device")),
                        request->value("optimizer", std::string("none")),
                        request->value("activation_dtype", std::string("fp32")));
  }
  for (const Json& space : plan["spaces"]) {
    if (!space.is_object()) continue;
    text += fmt::format("  {}: arena {:.1f} MiB (lower bound {:.1f} MiB), other memory {:.1f} MiB\n",
                        space.value("name", std::string("space")),
                        static_cast<double>(integer(space, "arena_bytes")) / kMiB,
                        static_cast<double>(integer(space, "lower_bound_bytes")) / kMiB,
                        static_cast<double>(integer(space, "constant_bytes")) / kMiB);
  }
  for (const auto& [purpose, bytes] : plan["by_purpose"].items()) {
    if (bytes.is_number() && bytes.get<double>() > 0)
      text += fmt::format("  {:<40} {:>10.1f} MiB\n", words_of(purpose), bytes.get<double>() / kMiB);
  }
  return text;
}

std::string memory_figures_text(const Json& object) {
  return "memory of a run, planned and measured\n" +
         memory_outcome_table(
             {.predicted_total_bytes = integer(object, "predicted_total_bytes"),
              .arena_bytes = integer(object, "arena_bytes"),
              .arena_high_water_bytes = integer(object, "arena_high_water_bytes"),
              // memory_outcome_table() does not show arena_written_bytes, so it is not read from the file.
              .arena_written_bytes = 0,
              .lower_bound_bytes = integer(object, "lower_bound_bytes"),
              .constant_bytes = integer(object, "constant_bytes"),
              .measured_peak_bytes = integer(object, "measured_peak_bytes")});
}

std::string results_text(const std::string& split, const Json& object) {
  MetricMap metrics;
  for (const auto& [key, value] : object.items())
    metrics[key] = value.is_number() ? value.get<double>() : NAN;
  return metrics_block(split, metrics);
}

std::optional<std::string> inspect_object(const std::string& name, const Json& object) {
  const auto has = [&](const char* key) { return object.contains(key); };
  if (has("log_history") && object["log_history"].is_array()) {
    const Json& history = object["log_history"];
    if (!std::ranges::all_of(history, is_log_record)) return std::nullopt;
    return fmt::format("trainer_state.json of a checkpoint or a run, at step {} of {}; ",
                       integer(object, "global_step"), integer(object, "max_steps")) +
           log_text({history.begin(), history.end()});
  }
  if (has("total_bytes") && has("spaces") && object["spaces"].is_array() && has("by_purpose") &&
      object["by_purpose"].is_object()) {
    return plan_text(object);
  }
  if (has("predicted_total_bytes") && has("arena_high_water_bytes")) return memory_figures_text(object);
  if (name.ends_with("_results.json") && std::ranges::all_of(object, is_number_or_null))
    return results_text(name.substr(0, name.size() - std::string_view("_results.json").size()), object);
  const auto belongs = [&](const char* what) {
    return std::string(what) + "; to see more, inspect its folder\n";
  };
  if (name == "profile.json") return belongs("the times of a run's operations (train --profile prints them)");
  if (name == "report.json") return belongs("the map of a run's memory (plimsoll report shows it)");
  if (name == "run_state.json") return belongs("the state from which a checkpoint resumes");
  if (name == "plimsoll_manifest.json") return belongs("the sizes and hashes of a checkpoint's files");
  if (name == "config.json") return belongs("the configuration of a model");
  if (name == "tokenizer_config.json" || name == "special_tokens_map.json")
    return belongs("settings of a tokenizer");
  if (name == "model.safetensors.index.json") return belongs("the file of each tensor of a model");
  return std::nullopt;
}

}  // namespace

std::optional<std::string> inspect_run_file(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  if (!name.ends_with(".json") && !name.ends_with(".jsonl")) return std::nullopt;
  const std::string text = read_small_file(path);
  if (name.ends_with(".jsonl")) {
    const std::vector<Json> records = log_records(text);
    return records.empty() ? std::nullopt : std::optional(path + ": " + log_text(records));
  }
  if (!text.starts_with('{')) return std::nullopt;
  const Json object = find_json(text);
  if (!object.is_object()) return std::nullopt;
  std::optional<std::string> found = inspect_object(name, object);
  return found ? std::optional(path + ": " + *found) : std::nullopt;
}

}  // namespace plimsoll
