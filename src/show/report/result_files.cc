#include "show/report/result_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/text_position.h"

namespace plimsoll {
namespace {

// A double represents every integer below this value (2^53) exactly.
constexpr double kLargestWhole = 9007199254740992.0;

bool counts_whole(std::string_view key) {
  return key.ends_with("_samples") || key.ends_with("_samples_mm") || key == "step" ||
         key == "num_input_tokens_seen" || key.find("_mem_") != std::string_view::npos;
}

bool is_whole(double value) {
  return std::fabs(value) < kLargestWhole && std::trunc(value) == value;
}

// Formats a duration as Python's str(timedelta): "0:01:02", "1 day, 0:00:00".
std::string format_timedelta(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  const auto hundredths = static_cast<int64_t>(std::fabs(seconds - static_cast<double>(whole)) * 100);
  const int64_t days = whole / 86400;
  const std::string prefix = days == 0 ? "" : fmt::format("{} day{}, ", days, days == 1 ? "" : "s");
  return fmt::format("{}{}:{:02}:{:02}.{:02}", prefix, whole / 3600 % 24, whole / 60 % 60, whole % 60,
                     hundredths);
}

nlohmann::json record_json(const LogRecord& record) {
  nlohmann::json object{{"epoch", metric_json("epoch", record.epoch)}, {"step", record.step}};
  for (const auto& [key, value] : record.values) object[key] = metric_json(key, value);
  for (const auto& [key, text] : record.words) object[key] = text;
  return object;
}

// Formats a number as Python's str of a float or an int, including values that JSON cannot represent.
std::string format_python(const nlohmann::json& value) {
  return value.is_number_float() ? python_float(value.get<double>()) : value.dump();
}

std::string shown(const std::string& key, double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (key.find("_mem_") != std::string::npos) return fmt::format("{}MB", static_cast<int64_t>(value) >> 20);
  if (key.find("_runtime") != std::string::npos) return format_timedelta(value);
  if (key == "total_flos")
    return fmt::format("{}GF", static_cast<int64_t>(std::floor(std::trunc(value) / 1073741824.0)));
  const nlohmann::json json = metric_json(key, value);
  if (!json.is_number_float()) return json.dump();
  // Rounds to four decimals as Python's round() does, from the exact value and with ties to even, and then formats the
  // shortest text.
  return python_float(std::strtod(fmt::format("{:.4f}", value).c_str(), nullptr));
}

}  // namespace

nlohmann::json metric_json(std::string_view key, double value) {
  if (!std::isfinite(value)) return nullptr;
  if (counts_whole(key) && is_whole(value)) return static_cast<int64_t>(value);
  return value;
}

std::string results_json(const MetricMap& metrics) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [key, value] : metrics) object[key] = metric_json(key, value);
  return python_json(object, 4);
}

void write_trainer_state(nlohmann::json state, const LogHistory& history,
                         const std::function<void(std::string_view)>& put) {
  constexpr std::string_view kEmptyList = "\n  \"log_history\": []";
  state["log_history"] = nlohmann::json::array();
  const std::string text = python_json(state, 2) + "\n";
  // JSON escapes line breaks in texts, so a pattern that contains a line break can match only the key log_history and no value.
  const size_t list = text.find(kEmptyList) + kEmptyList.size() - 1;
  put(std::string_view(text).substr(0, list));
  bool is_first = true;
  for (const LogRecord& record : history) {
    std::string object = python_json(record_json(record), 2);
    for (size_t at = 0; (at = object.find('\n', at)) != std::string::npos; at += 5)
      object.replace(at, 1, "\n    ");
    put((is_first ? "\n    " : ",\n    ") + object);
    is_first = false;
  }
  if (!is_first) put("\n  ");
  put(std::string_view(text).substr(list));
}

LogRecord parse_log_line(std::string_view line) {
  JsonTree<nlohmann::json> tree;
  if (const auto fault = read_json(line, {}, tree)) {
    throw_error(ErrorCode::kBadData, "column {}: {}", position_in(line, fault->offset).column, fault->reason);
  }
  LogRecord record;
  const nlohmann::json object = tree.take();
  if (!object.is_object())
    throw_error(ErrorCode::kBadData, "found JSON of type {}, but an object is expected", object.type_name());
  for (const auto& [key, value] : object.items()) {
    const bool is_step = key == "step";
    if (value.is_string() && !is_step && key != "epoch") {
      record.words[key] = value.get<std::string>();
      continue;
    }
    if (!value.is_number() && (is_step || !value.is_null())) {
      throw_error(ErrorCode::kBadData, "'{}' is of type {}, but a number is expected", printable(key),
                  value.type_name());
    }
    const double number = value.is_null() ? std::nan("") : value.get<double>();
    if (is_step) {
      record.step = value.get<int64_t>();
    } else if (key == "epoch") {
      record.epoch = number;
    } else {
      record.values[key] = number;
    }
  }
  return record;
}

std::string log_line(const LogRecord& record) {
  const nlohmann::json object = record_json(record);
  std::string line = "{";
  for (const auto& [key, value] : object.items()) {
    if (line.size() > 1) line += ", ";
    line += nlohmann::json(key).dump() + ": " + format_python(value);
  }
  return line + "}\n";
}

std::string metrics_block(std::string_view split, const MetricMap& metrics) {
  size_t key_width = 0;
  size_t value_width = 0;
  for (const auto& [key, value] : metrics) {
    key_width = std::max(key_width, key.size());
    value_width = std::max(value_width, shown(key, value).size());
  }
  std::string text = fmt::format("***** {} metrics *****\n", split);
  for (const auto& [key, value] : metrics) {
    text += fmt::format("  {:<{}} = {:>{}}\n", key, key_width, shown(key, value), value_width);
  }
  return text;
}

}  // namespace plimsoll
