// The JSON Schema of settings files, generated from the table of settings and the rules between two settings.
//
// It refuses the same files as the parser of JSON files, with three exceptions that a schema cannot express: it accepts
// a number such as 1.0 as an integer, it has no rules that compare two values (such as a budget above a limit), and it
// has no rules that depend on the command, the model or files. In YAML files, whose values have no fixed types, the
// parser also accepts "5" for a number and "yes" for a flag.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "arguments/value.h"
#include "base/check.h"
#include "base/optimizer_table.h"
#include "plimsoll/commands.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

// Adds the bounds of an interval such as "[0, 1)" to a schema.
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
    // A whole number is written without a fraction.
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

// Regular expressions for values that are texts, in the syntax that JSON Schema and JavaScript share.
constexpr const char* kSizePattern = R"(^\+?([0-9]+\.?[0-9]*|\.[0-9]+)\s*([bB]|[kKmMgGtT]([iI]?[bB])?)?\s*$)";
// Matches numbers without a unit that are below 1 MiB (1048576) or not whole. As sizes they are refused: they are probably typing errors.
constexpr const char* kSmallSizePattern =
    R"(^\+?0*(([1-9][0-9]{0,5}|10[0-3][0-9]{4}|104[0-7][0-9]{3}|1048[0-4][0-9]{2}|10485[0-6][0-9]|104857[0-5])(\.0*)?|)"
    R"([0-9]*\.0*[1-9][0-9]*)\s*$)";
constexpr int kLeastSize = 1 << 20;  // the smallest size that may be written without a unit
constexpr const char* kPairsPattern =
    R"(^\s*$|^\s*\{|^[\s,]*[^=,\s][^=,]*=[^,]*(,\s*([^=,\s][^=,]*=[^,]*)?)*$)";
constexpr const char* kDevicePattern = "^(?!cuda)[\\s\\S]|^cuda(:[0-9]{1,4})?$";
constexpr const char* kLayerPattern = "^\\s*[0-9]{1,6}\\s*$";
constexpr const char* kLayersPattern = "^[\\s,]*([0-9]{1,6}\\s*(,[\\s,]*|$))*$";
// Patterns of the words that bool_from_text() reads as False and as True.
constexpr const char* kNoPattern = "^([nN][oO]?|[fF]([aA][lL][sS][eE])?|[oO][fF][fF]|0)$";
constexpr const char* kYesPattern = "^([yY]([eE][sS])?|[tT]([rR][uU][eE])?|[oO][nN]|1)$";

std::string in_upper_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return result;
}

// Returns the schema of a setting with these choices. A setting with the choice "no" or "all" also accepts true and
// false, because YAML converts an unquoted no to false.
Json choices_schema(const Setting& setting, std::vector<std::string_view> choices) {
  const auto has = [&](std::string_view word) { return std::ranges::find(choices, word) != choices.end(); };
  const bool is_flag = setting.info.unit == "flag";
  const bool reads_no = has("no") || is_flag;
  const bool reads_yes = has("all") || is_flag;
  Json values = Json::array();
  for (const std::string_view choice : choices) values.push_back(choice);
  for (const OldValue& old : old_values()) {
    if (old.setting == setting.info.name) values.push_back(old.value);
  }
  // The names of tasks are also accepted in upper case, as by run_glue.
  if (setting.info.name == "task_name") {
    for (const std::string_view choice : choices) values.push_back(in_upper_case(choice));
  }
  if (const std::string text = format_value(Arguments{}, setting); !has(text)) values.push_back(text);
  if (reads_no) values.push_back(false);
  if (reads_yes) values.push_back(true);
  values.push_back(nullptr);
  Json schema = {{"enum", values}};
  if (!reads_no && !reads_yes) return schema;
  Json forms = Json::array({schema});
  if (reads_no) forms.push_back({{"type", "string"}, {"pattern", kNoPattern}});
  if (reads_yes) forms.push_back({{"type", "string"}, {"pattern", kYesPattern}});
  return {{"anyOf", forms}};
}

// Returns the schema of a setting that this version does not support, so that it accepts only the default.
Json refused_schema(const Setting& setting) {
  Json values = Json::array({nullptr, value_json(Arguments{}, setting)});
  if (setting.info.type == "flag" && values.back().is_null()) values.back() = false;
  if (setting.info.type == "text") {
    values.push_back(in_upper_case(values.back().get<std::string>()));
    if (setting.info.unit == "flag") values.push_back(true);
    if (setting.info.unit == "json") values.push_back(false);
  }
  return {{"enum", values}};
}

std::vector<std::string_view> choices_of(const Setting& setting) {
  if (setting.info.name == "optim") {
    std::vector<std::string_view> names;
    for (const OptimizerName& row : optimizer_names()) {
      if (row.is_here()) names.push_back(row.name);
    }
    return names;
  }
  return split_choices(setting.info.range.find('|') == std::string_view::npos ? "" : setting.info.range);
}

Json list_schema(bool is_of_layers) {
  Json number = {{"type", "integer"}, {"minimum", 0}, {"maximum", 999999}};
  Json item = {{"type", "string"}};
  if (is_of_layers) item["pattern"] = kLayerPattern;
  Json text = {{"type", "string"}};
  if (is_of_layers) text["pattern"] = kLayersPattern;
  Json items = is_of_layers ? Json{{"anyOf", Json::array({item, number})}} : item;
  Json forms = Json::array({text, {{"type", "array"}, {"items", items}}, {{"type", "null"}}});
  if (is_of_layers) forms.push_back(number);
  return {{"anyOf", forms}};
}

Json size_schema(std::string_view range) {
  Json number = {{"type", Json::array({"integer", "null"})}, {"minimum", kLeastSize}};
  Json forms = Json::array({number});
  if (range.starts_with("[0")) forms.push_back({{"const", 0}});
  forms.push_back({{"type", "string"}, {"pattern", kSizePattern}, {"not", {{"pattern", kSmallSizePattern}}}});
  return {{"anyOf", forms}};
}

// Returns the schema of the value of a setting. Null means the default.
Json schema_of(const Setting& setting) {
  const ArgumentInfo& info = setting.info;
  if (info.status == ArgumentStatus::kRefused) return refused_schema(setting);
  if (const std::vector<std::string_view> choices = choices_of(setting); !choices.empty())
    return choices_schema(setting, choices);
  if (info.type == "list") return list_schema(info.unit == "layers");
  if (info.unit == "bytes") return size_schema(info.range);
  Json schema;
  if (info.type == "flag") {
    schema["type"] = Json::array({"boolean", "null"});
  } else if (info.type == "integer" || info.type == "number") {
    schema["type"] = Json::array({info.type, "null"});
    add_interval(schema, info.range);
  } else if (info.type == "key=value") {
    schema["type"] = Json::array({"string", "object", "null"});
    schema["pattern"] = kPairsPattern;
    schema["additionalProperties"] = {{"type", Json::array({"string", "number", "boolean", "null"})}};
  } else if (info.unit == "json") {
    schema["type"] = Json::array({"string", "object", "array", "boolean", "null"});
  } else {
    schema["type"] =
        info.unit == "flag" ? Json::array({"string", "boolean", "null"}) : Json::array({"string", "null"});
    if (info.name == "device") schema["pattern"] = kDevicePattern;
    if (info.name == "offload_optimizer")
      schema["pattern"] = fmt::format("{}|{}|^nvme:.|^$", kNoPattern, kYesPattern);
    if (info.name == "output_dir") schema["minLength"] = 1;
  }
  return schema;
}

// Returns the schema of a setting under its old name. It accepts the values of the setting that replaces it, or, if the old name
// was a flag that selects one of these values, True and False.
Json schema_of(const OldName& old) {
  const Setting* setting = find_setting(old.replacement);
  const std::string help =
      setting == nullptr
          ? fmt::format("Old name, ignored: {}.", old.note)
          : fmt::format("{} name of {}.", old.kind == NameKind::kPeft ? "PEFT's" : "Old", old.replacement);
  Json schema = Json::object();
  if (setting != nullptr && old.true_value.empty()) schema = schema_of(*setting);
  if (setting != nullptr && !old.true_value.empty()) {
    const Json words = {{"type", "string"}, {"pattern", fmt::format("{}|{}", kNoPattern, kYesPattern)}};
    schema["anyOf"] = Json::array({{{"type", Json::array({"boolean", "null"})}}, words});
  }
  if (old.name == "warmup_ratio") schema["exclusiveMaximum"] = 1;
  schema["description"] = help;
  schema["deprecated"] = old.kind == NameKind::kOld;
  return schema;
}

// Returns SettingState::values as JSON values of the setting's type.
Json values_of(const SettingState& state, const Setting& setting) {
  Json values = Json::array();
  for (const std::string_view value : split_choices(state.values)) {
    if (setting.info.type == "integer" || setting.info.type == "number") {
      values.push_back(Json::parse(value));
    } else {
      values.push_back(value);
      // The choice "no" may also be written as false.
      if (value == "no") values.push_back(false);
      if (setting.info.unit == "flag") {
        if (const auto flag = bool_from_text(value)) values.push_back(*flag);
      }
    }
  }
  return values;
}

// Returns a schema that accepts a settings file if the setting in it has the given state. If the setting is absent or
// null, its default decides.
Json state_schema(const SettingState& state) {
  const Setting& setting = *find_setting(state.setting);
  const bool is_default_so = holds(Arguments{}, state);
  Json value;
  switch (state.kind) {
    case StateKind::kTrue:
      value = {{"const", true}};
      break;
    case StateKind::kFalse:
      value = {{"const", false}};
      break;
    case StateKind::kGiven: {
      Json absent = Json::array({nullptr, ""});
      if (setting.info.unit == "json") {
        for (const Json& empty : {Json(false), Json::array(), Json::object()}) absent.push_back(empty);
      }
      value = {{"not", {{"enum", absent}}}};
      break;
    }
    case StateKind::kOneOf:
    case StateKind::kNoneOf: {
      Json values = values_of(state, setting);
      if (is_default_so == (state.kind == StateKind::kOneOf)) values.push_back(nullptr);
      value = {{"enum", values}};
      if (state.kind == StateKind::kNoneOf) value = {{"not", value}};
      break;
    }
    case StateKind::kContains:
      value = {{"anyOf", Json::array({{{"type", "array"}, {"contains", {{"const", state.values}}}},
                                      {{"type", "string"},
                                       {"pattern", fmt::format("(^|,)\\s*{}\\s*(,|$)", state.values)}}})}};
      break;
  }
  Json schema = {{"properties", {{std::string(state.setting), value}}}};
  if (!is_default_so) schema["required"] = Json::array({state.setting});
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
  for (const OldName& old : old_names()) properties[std::string(old.name)] = schema_of(old);
  Json rules = Json::array();
  for (const Exclusion& row : exclusions())
    rules.push_back({{"not", {{"allOf", Json::array({state_schema(row.first), state_schema(row.second)})}}}});
  const Json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "Settings of Plimsoll"},
      {"description", "A settings file of plimsoll train, plan, eval, predict, fit and bench."},
      {"type", "object"},
      {"properties", properties},
      {"additionalProperties", false},
      {"allOf", rules}};
  return schema.dump(2) + "\n";
}

}  // namespace plimsoll
