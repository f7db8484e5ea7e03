// The JSON Schema of settings files, generated from the table of settings.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "arguments/value.h"
#include "base/check.h"
#include "plimsoll/commands.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

// Adds the ends of an interval such as "[0, 1)".
void add_interval(Json& schema, std::string_view range) {
  if (range.empty() || range.find(", ") == std::string_view::npos ||
      range.find('|') != std::string_view::npos)
    return;
  const size_t comma = range.find(',');
  const auto number = [](std::string_view text) -> std::optional<double> {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text == "inf") return std::nullopt;
    return value;
  };
  const auto add = [&](const char* name, double value) {
    // Whole numbers are written without a fraction.
    if (value == static_cast<double>(static_cast<int64_t>(value))) {
      schema[name] = static_cast<int64_t>(value);
    } else {
      schema[name] = value;
    }
  };
  if (const auto low = number(range.substr(1, comma - 1)))
    add(range.front() == '(' ? "exclusiveMinimum" : "minimum", *low);
  if (const auto high = number(range.substr(comma + 2, range.size() - comma - 3)))
    add(range.back() == ')' ? "exclusiveMaximum" : "maximum", *high);
}

Json text_list() {
  return {{"type", Json::array({"string", "array"})},
          {"items", {{"type", Json::array({"string", "integer"})}}}};
}

// Returns the schema of the value of a setting. Null means the default.
Json schema_of(const Setting& setting) {
  const ArgumentInfo& info = setting.info;
  const std::vector<std::string_view> choices =
      split_choices(info.range.find('|') == std::string_view::npos ? "" : info.range);
  Json schema;
  if (info.type == "flag") {
    schema["type"] = Json::array({"boolean", "null"});
  } else if (info.type == "integer") {
    schema["type"] =
        info.unit == "bytes" ? Json::array({"integer", "string", "null"}) : Json::array({"integer", "null"});
  } else if (info.type == "number") {
    schema["type"] = Json::array({"number", "null"});
  } else if (info.type == "list") {
    schema = text_list();
    schema["type"].push_back("null");
    if (info.unit == "layers") schema["type"].push_back("integer");
  } else if (info.type == "key=value") {
    schema["type"] = Json::array({"string", "object", "null"});
  } else if (!choices.empty()) {
    schema["enum"] = Json::array();
    bool has_switch = info.unit == "flag";
    for (const std::string_view choice : choices) {
      schema["enum"].push_back(choice);
      has_switch = has_switch || choice == "no" || choice == "all";
    }
    const std::string default_text = format_value(Arguments{}, setting);
    if (std::ranges::find(choices, std::string_view(default_text)) == choices.end())
      schema["enum"].push_back(default_text);
    // YAML reads an unquoted `no` as false, so the schema allows true and false as well.
    if (has_switch) {
      schema["enum"].push_back(true);
      schema["enum"].push_back(false);
    }
    schema["enum"].push_back(nullptr);
  } else if (info.unit == "json") {
    schema["type"] = Json::array({"string", "object", "array", "boolean", "null"});
  } else {
    schema["type"] =
        info.unit == "flag" ? Json::array({"string", "boolean", "null"}) : Json::array({"string", "null"});
  }
  if (info.type == "integer" || info.type == "number") add_interval(schema, info.range);
  return schema;
}

}  // namespace

std::string settings_schema() {
  Json properties = Json::object();
  properties["$schema"] = {{"type", "string"}};
  for (const Setting& setting : settings()) {
    Json schema = schema_of(setting);
    std::string help(setting.info.help);
    if (setting.info.status == ArgumentStatus::kNoEffect)
      help += fmt::format(" Accepted without effect: {}.", setting.info.note);
    if (setting.info.status == ArgumentStatus::kRefused)
      help += fmt::format(" Refused: {}.", setting.info.note);
    schema["description"] = help;
    if (!setting.is_secret()) {
      if (const Json value = value_json(Arguments{}, setting); !value.is_null()) schema["default"] = value;
    }
    if (setting.info.status == ArgumentStatus::kRefused) schema["deprecated"] = true;
    properties[std::string(setting.info.name)] = schema;
  }
  for (const OldName& old : old_names()) {
    const std::string help =
        old.replacement.empty()
            ? fmt::format("Old name, ignored: {}.", old.note)
            : fmt::format("{} name of {}.", old.kind == NameKind::kPeft ? "PEFT's" : "Old", old.replacement);
    properties[std::string(old.name)] = {{"description", help}, {"deprecated", old.kind == NameKind::kOld}};
  }
  const Json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "Settings of Plimsoll"},
      {"description", "A settings file of plimsoll train, plan, eval, predict, fit and bench."},
      {"type", "object"},
      {"properties", properties},
      {"additionalProperties", false}};
  return schema.dump(2) + "\n";
}

}  // namespace plimsoll
