#include "base/guarded_json.h"
#include "run/model_source.h"

#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

constexpr const char* kTextKey = "text_column_names";
constexpr const char* kLabelKey = "label_column_name";
constexpr const char* kDelimiterKey = "label_delimiter";

}  // namespace

TrainedColumns trained_columns(std::string_view config_json) {
  TrainedColumns columns;
  const auto config = find_json(config_json);
  if (!config.is_object()) return columns;
  if (const auto label = config.find(kLabelKey); label != config.end() && label->is_string())
    columns.label = label->get<std::string>();
  if (const auto delimiter = config.find(kDelimiterKey); delimiter != config.end() && delimiter->is_string())
    columns.label_delimiter = delimiter->get<std::string>();
  const auto text = config.find(kTextKey);
  if (text == config.end() || !text->is_array() || text->empty() || text->size() > 2) return columns;
  for (const nlohmann::json& name : *text) {
    if (!name.is_string()) {
      columns.text.clear();
      return columns;
    }
    columns.text.push_back(name.get<std::string>());
  }
  return columns;
}

std::string with_trained_columns(const std::string& config_json, const TrainedColumns& columns) {
  if (config_json.empty() && columns.text.empty()) return {};
  auto config = config_json.empty() ? nlohmann::json::object() : parse_json(config_json, "config.json");
  config.erase(kTextKey);
  config.erase(kLabelKey);
  config.erase(kDelimiterKey);
  if (!columns.text.empty()) {
    config[kTextKey] = columns.text;
    config[kLabelKey] = columns.label;
    if (!columns.label_delimiter.empty()) config[kDelimiterKey] = columns.label_delimiter;
  }
  return config.dump();
}

}  // namespace plimsoll
