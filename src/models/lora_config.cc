#include "models/lora_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/head_kind.h"
#include "base/json_document.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Wider than any model. A larger rank is a mistake.
constexpr int64_t kMaxRank = 65536;

const Json* present(const Json& config, const char* key) {
  const auto it = config.find(key);
  return it == config.end() || it->is_null() ? nullptr : &*it;
}

[[noreturn]] void refuse(std::string_view where, const char* key, const Json& value,
                         std::string_view wanted) {
  throw_error(ErrorCode::kUsage, "{}: \"{}\" is {}; Plimsoll supports {}", where, key, value.dump(), wanted);
}

// Reads a list of names, or one string.
std::vector<std::string> names_of(const Json& config, const char* key, std::string_view where) {
  const Json* value = present(config, key);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> names;
  if (value->is_array()) {
    for (const Json& name : *value) {
      if (name.is_string()) names.push_back(name.get<std::string>());
    }
  }
  if (!value->is_array() || names.size() != value->size()) {
    throw_error(ErrorCode::kBadData, "{}: \"{}\" is {}, names of modules are wanted", where, key,
                value->dump());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Reads a list of layer numbers, or one number.
std::vector<int64_t> layers_of(const Json& config, const char* key, std::string_view where) {
  const Json* value = present(config, key);
  if (value == nullptr) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  std::vector<int64_t> layers;
  for (const Json& layer : list) {
    if (!layer.is_number_unsigned() || layer.get<uint64_t>() > kMaxRank) {
      throw_error(ErrorCode::kBadData, "{}: \"{}\" is {}, numbers of layers are wanted", where, key,
                  value->dump());
    }
    layers.push_back(layer.get<int64_t>());
  }
  return layers;
}

double number_of(const Json& config, const char* key, double otherwise, double least,
                 std::string_view where) {
  const Json* value = present(config, key);
  if (value == nullptr) return otherwise;
  if (!value->is_number() || value->get<double>() < least) {
    throw_error(ErrorCode::kBadData, "{}: \"{}\" is {}, a number from {} is wanted", where, key,
                value->dump(), least);
  }
  return value->get<double>();
}

bool flag_of(const Json& config, const char* key) {
  const Json* value = present(config, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

// Refuses the settings that change the meaning of the matrices.
void refuse_variants(const Json& config, std::string_view where) {
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora", "use_bdlora"}) {
    if (flag_of(config, key)) refuse(where, key, true, "false");
  }
  for (const char* key : {"rank_pattern", "alpha_pattern", "layers_pattern", "layer_replication",
                          "target_parameters", "trainable_token_indices"}) {
    const Json* value = present(config, key);
    if (value != nullptr && !(value->is_structured() && value->empty())) refuse(where, key, *value, "null");
  }
  if (const Json* bias = present(config, "bias"); bias != nullptr && *bias != "none") {
    refuse(where, "bias", *bias, "\"none\"");
  }
}

// Returns a list, or a string for an expression.
Json modules_json(const std::vector<std::string>& modules) {
  const bool is_text =
      modules.size() == 1 &&
      (modules[0] == "all-linear" || modules[0].find_first_of("*+?()[]{}|\\^$") != std::string::npos);
  return is_text ? Json(modules[0]) : Json(modules);
}

// PEFT writes an absent list as null.
template <typename List>
Json or_null(const List& list, const Json& json) {
  return list.empty() ? Json(nullptr) : json;
}

}  // namespace

AdapterConfig parse_adapter_config(std::string_view text, std::string_view where) {
  const Json config = parse_json(text, where);
  if (!config.is_object()) throw_error(ErrorCode::kBadData, "{}: this is not a JSON object", where);
  const Json* type = present(config, "peft_type");
  if (type == nullptr || *type != "LORA") {
    refuse(where, "peft_type", type == nullptr ? Json(nullptr) : *type, "\"LORA\"");
  }
  refuse_variants(config, where);
  AdapterConfig adapter;
  const double r = number_of(config, "r", 8, 1, where);
  if (r > kMaxRank || std::floor(r) != r) {
    throw_error(ErrorCode::kBadData, "{}: \"r\" is {}, an integer from 1 to {} is wanted", where, r,
                kMaxRank);
  }
  adapter.lora.r = static_cast<int64_t>(r);
  adapter.lora.alpha = number_of(config, "lora_alpha", 8, 0, where);
  adapter.lora.dropout = number_of(config, "lora_dropout", 0, 0, where);
  if (adapter.lora.dropout >= 1) {
    throw_error(ErrorCode::kBadData, "{}: \"lora_dropout\" is {}, it must be below 1", where,
                adapter.lora.dropout);
  }
  adapter.lora.use_rslora = flag_of(config, "use_rslora");
  adapter.lora.target_modules = names_of(config, "target_modules", where);
  adapter.lora.exclude_modules = names_of(config, "exclude_modules", where);
  adapter.lora.layers_to_transform = layers_of(config, "layers_to_transform", where);
  adapter.lora.modules_to_save = names_of(config, "modules_to_save", where);
  if (const Json* base = present(config, "base_model_name_or_path"); base != nullptr && base->is_string()) {
    adapter.base_model = base->get<std::string>();
  }
  return adapter;
}

std::string adapter_config_json(const AdapterConfig& config, std::string_view model_type) {
  const LoraConfig& lora = config.lora;
  std::vector<std::string> saved{"classifier", "score"};
  for (const std::string& module : lora.modules_to_save) {
    if (std::find(saved.begin(), saved.end(), module) == saved.end()) saved.push_back(module);
  }
  std::vector<std::string> targets = lora.target_modules;
  if (targets.empty()) targets = default_lora_targets(model_type);
  // PEFT writes an integer without a fraction. Doubles are exact for all integers up to 2^53.
  const bool is_whole = std::floor(lora.alpha) == lora.alpha && lora.alpha <= 0x1p53;
  const Json json{{"alpha_pattern", Json::object()},
                  {"base_model_name_or_path", config.base_model},
                  {"bias", "none"},
                  {"exclude_modules", or_null(lora.exclude_modules, modules_json(lora.exclude_modules))},
                  {"fan_in_fan_out", false},
                  {"inference_mode", true},
                  {"init_lora_weights", true},
                  {"layers_pattern", nullptr},
                  {"layers_to_transform", or_null(lora.layers_to_transform, lora.layers_to_transform)},
                  {"lora_alpha", is_whole ? Json(static_cast<int64_t>(lora.alpha)) : Json(lora.alpha)},
                  {"lora_dropout", lora.dropout},
                  {"modules_to_save", saved},
                  {"peft_type", "LORA"},
                  {"r", lora.r},
                  {"rank_pattern", Json::object()},
                  {"revision", nullptr},
                  {"target_modules", modules_json(targets)},
                  {"task_type", kSequenceClassification.peft_task_type},
                  {"use_dora", false},
                  {"use_rslora", lora.use_rslora}};
  return json.dump(2) + "\n";
}

}  // namespace plimsoll
