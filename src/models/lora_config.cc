#include "base/guarded_json.h"
#include "models/lora.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/problem_type.h"
#include "models/architecture.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// The largest accepted rank. It is larger than the width of any model, so a larger rank is a mistake.
constexpr int64_t kMaxRank = 65536;

const Json* present(const Json& config, const char* key) {
  const auto it = config.find(key);
  return it == config.end() || it->is_null() ? nullptr : &*it;
}

[[noreturn]] void refuse(std::string_view where, const char* key, const Json& value,
                         std::string_view wanted) {
  throw_error(ErrorCode::kUsage, "{}: \"{}\" is {}; Plimsoll supports {}", where, key, value.dump(), wanted);
}

enum class Order : uint8_t { kSorted, kAsWritten };

// Reads a list of names, or one string.
std::vector<std::string> names_of(const Json& config, const char* key, std::string_view where,
                                  Order order = Order::kSorted) {
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
    throw_error(ErrorCode::kBadData, "{}: \"{}\" is {}, but names of modules are expected; correct the file",
                where, key, value->dump());
  }
  if (order == Order::kSorted) std::sort(names.begin(), names.end());
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
      throw_error(ErrorCode::kBadData,
                  "{}: \"{}\" is {}, but numbers of layers are expected; correct the file", where, key,
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
    throw_error(ErrorCode::kBadData,
                "{}: \"{}\" is {}, but a number of at least {} is expected; correct the file", where, key,
                value->dump(), least);
  }
  return value->get<double>();
}

bool flag_of(const Json& config, const char* key, std::string_view where) {
  const Json* value = present(config, key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    throw_error(ErrorCode::kBadData, "{}: \"{}\" is {}, but true or false is expected; correct the file",
                where, key, value->dump());
  }
  return value->get<bool>();
}

// Refuses variants of LoRA that Plimsoll does not compute, such as DoRA.
void refuse_variants(const Json& config, std::string_view where) {
  for (const char* key : {"use_dora", "lora_bias", "use_qalora", "use_bdlora"}) {
    if (flag_of(config, key, where)) refuse(where, key, true, "false");
  }
  for (const char* key : {"rank_pattern", "alpha_pattern", "layer_replication", "target_parameters",
                          "trainable_token_indices"}) {
    const Json* value = present(config, key);
    if (value != nullptr && !(value->is_structured() && value->empty())) refuse(where, key, *value, "null");
  }
  // If a file sets one of the following keys, the adapter needs another forward pass or another base model.
  for (const char* key : {"alora_invocation_tokens", "arrow_config", "kasa_config", "monteclora_config"}) {
    if (const Json* value = present(config, key)) refuse(where, key, *value, "null");
  }
  if (const Json* bias = present(config, "bias"); bias != nullptr && *bias != "none") {
    refuse(where, "bias", *bias, "\"none\"");
  }
}

// A value of PEFT's init_lora_weights. If `refusal` is empty, the value is accepted, because it does not change the base, or because
// change_base() can compute the change.
struct Initialisation {
  std::string_view name;
  std::string_view refusal;
  BaseChange change = BaseChange::kNone;
};

constexpr Initialisation kInitialisations[] = {
    {"gaussian", ""},
    {"eva", ""},
    {"orthogonal", ""},
    {"lora_ga", ""},
    {"mica", ""},
    {"pissa", "", BaseChange::kPissa},
    {"olora", "", BaseChange::kOlora},
    {"pissa_niter_",
     "with this initialisation PEFT changed the base by an approximation that uses random numbers"},
    {"corda",
     "with this initialisation PEFT changed the base by an amount that depends on activations of the "
     "training data"},
    {"loftq",
     "with this initialisation PEFT replaced the weights of the base with weights that bitsandbytes "
     "quantized on a GPU"},
};

bool is_initialisation(const std::string& text, const Initialisation& row) {
  // PEFT compares "pissa_niter_16" and "corda..." by their beginning, and "OLoRA" and "MiCA" without case.
  if (row.name == "pissa_niter_" || row.name == "corda") return text.starts_with(row.name);
  if (row.name != "olora" && row.name != "mica") return text == row.name;
  return std::ranges::equal(text, row.name, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

// Reads init_lora_weights, which determines whether the adapter belongs to the original base or to a changed one.
void read_initialisation(const Json& config, std::string_view where, AdapterConfig& adapter) {
  const Json* value = present(config, "init_lora_weights");
  if (value == nullptr || value->is_boolean()) return;
  const std::string text = value->is_string() ? value->get<std::string>() : "";
  for (const Initialisation& row : kInitialisations) {
    if (!is_initialisation(text, row)) continue;
    if (!row.refusal.empty()) {
      throw_error(ErrorCode::kUsage,
                  "{}: \"init_lora_weights\" is {}: {}, so the base weights that it was trained with cannot "
                  "be computed from the original model. "
                  "Where the adapter was trained, {}save the merged model",
                  where, value->dump(), row.refusal,
                  row.name == "loftq" ? ""
                                      : "convert it with PEFT's save_pretrained(..., "
                                        "path_initial_model_for_weight_conversion=...), or ");
    }
    adapter.lora.base_change = row.change;
    if (row.name == "mica") adapter.trained_otherwise = "init_lora_weights " + text;
    return;
  }
  refuse(where, "init_lora_weights", *value,
         "true, false, gaussian, eva, orthogonal, lora_ga, mica, pissa and olora");
}

// Reads from adapter_config.json which head the model had when PEFT trained the adapter, and whether PEFT saved the whole head with the
// adapter. The head determines the task.
void read_head(const Json& config, std::string_view where, AdapterConfig& adapter) {
  if (const Json* task = present(config, "task_type")) {
    // PEFT's models for feature extraction have no head, so the base model determines the task, as without a task type.
    adapter.lora.saves_head = *task != "FEATURE_EXTRACTION";
    if (!adapter.lora.saves_head) return;
    for (const ProblemTypeRecord& record : kProblemTypes) {
      if (record.head->peft_task_type.empty() || *task != record.head->peft_task_type) continue;
      adapter.head = {.kind = record.head, .entry = fmt::format("\"task_type\" is {}", task->dump())};
      return;
    }
    refuse(where, "task_type", *task, "SEQ_CLS, TOKEN_CLS, CAUSAL_LM, FEATURE_EXTRACTION and null");
  }
  adapter.lora.saves_head = false;
  const Json* mapping = present(config, "auto_mapping");
  const Json* model =
      mapping != nullptr && mapping->is_object() ? present(*mapping, "base_model_class") : nullptr;
  if (model == nullptr || !model->is_string()) return;
  const std::string& name = model->get_ref<const std::string&>();
  for (const ProblemTypeRecord& record : kProblemTypes) {
    const HeadKind& head = *record.head;
    const bool has_head =
        name.ends_with(head.class_suffix) || (!head.old_suffix.empty() && name.ends_with(head.old_suffix));
    if (!has_head) continue;
    adapter.head = {.kind = &head, .entry = fmt::format("\"base_model_class\" is {}", model->dump())};
    return;
  }
}

// Returns the JSON form of a setting that selects modules: a string for all-linear or a regular expression, otherwise a list of names.
Json modules_json(const std::vector<std::string>& modules) {
  const bool is_text =
      modules.size() == 1 &&
      (modules[0] == "all-linear" || modules[0].find_first_of("*+?()[]{}|\\^$") != std::string::npos);
  return is_text ? Json(modules[0]) : Json(modules);
}

// Returns the value of init_lora_weights that makes PEFT change the base model in the same way when it loads the adapter.
Json initialisation_json(BaseChange change) {
  for (const Initialisation& row : kInitialisations) {
    if (change != BaseChange::kNone && row.change == change) return Json(row.name);
  }
  return true;
}

// Returns `json`, or null for an empty list, as PEFT writes it.
template <typename List>
Json or_null(const List& list, const Json& json) {
  return list.empty() ? Json(nullptr) : json;
}

}  // namespace

AdapterConfig parse_adapter_config(std::string_view text, std::string_view where) {
  const Json config = parse_json_object(text, where);
  const Json* type = present(config, "peft_type");
  if (type == nullptr || *type != "LORA") {
    refuse(where, "peft_type", type == nullptr ? Json(nullptr) : *type, "\"LORA\"");
  }
  refuse_variants(config, where);
  AdapterConfig adapter;
  adapter.lora.source = where;
  read_head(config, where, adapter);
  const double r = number_of(config, "r", 8, 1, where);
  if (r > kMaxRank || std::floor(r) != r) {
    throw_error(ErrorCode::kBadData,
                "{}: \"r\" is {}, but an integer from 1 to {} is expected; correct the file", where, r,
                kMaxRank);
  }
  adapter.lora.r = static_cast<int64_t>(r);
  adapter.lora.alpha = number_of(config, "lora_alpha", 8, 0, where);
  adapter.lora.dropout = number_of(config, "lora_dropout", 0, 0, where);
  if (adapter.lora.dropout >= 1) {
    throw_error(ErrorCode::kBadData, "{}: \"lora_dropout\" is {}, but it must be below 1; correct the file",
                where, adapter.lora.dropout);
  }
  adapter.lora.use_rslora = flag_of(config, "use_rslora", where);
  adapter.lora.target_modules = names_of(config, "target_modules", where);
  adapter.lora.exclude_modules = names_of(config, "exclude_modules", where);
  adapter.lora.layers_to_transform = layers_of(config, "layers_to_transform", where);
  adapter.lora.layers_pattern = names_of(config, "layers_pattern", where, Order::kAsWritten);
  std::erase(adapter.lora.layers_pattern, "");
  if (!adapter.lora.layers_pattern.empty() && adapter.lora.layers_to_transform.empty()) {
    throw_error(
        ErrorCode::kUsage,
        "{}: \"layers_pattern\" is {} without \"layers_to_transform\", which PEFT refuses too; add the "
        "numbers of the layers, or set it to null",
        where, config.at("layers_pattern").dump());
  }
  adapter.lora.modules_to_save = names_of(config, "modules_to_save", where);
  read_initialisation(config, where, adapter);
  if (present(config, "velora_config") != nullptr) adapter.trained_otherwise = "velora_config";
  if (const Json* base = present(config, "base_model_name_or_path"); base != nullptr && base->is_string()) {
    adapter.base_model = base->get<std::string>();
  }
  return adapter;
}

std::string adapter_config_json(const AdapterConfig& config, std::string_view model_type,
                                const HeadKind& head) {
  const LoraConfig& lora = config.lora;
  std::vector<std::string> saved;
  if (lora.saves_head) saved.assign(kHeadModules.begin(), kHeadModules.end());
  for (const std::string& module : lora.modules_to_save) {
    if (std::find(saved.begin(), saved.end(), module) == saved.end()) saved.push_back(module);
  }
  const std::string task(lora.saves_head || head.predicts_tokens ? head.peft_task_type : "");
  std::vector<std::string> targets = lora.target_modules;
  if (targets.empty()) targets = default_lora_targets(model_type);
  // PEFT writes an integer without a fraction. Doubles are exact for all integers up to 2^53.
  const bool is_whole = std::floor(lora.alpha) == lora.alpha && lora.alpha <= 0x1p53;
  const Json json{{"alpha_pattern", Json::object()},
                  {"base_model_name_or_path", config.base_model},
                  {"bias", "none"},
                  {"exclude_modules", or_null(lora.exclude_modules, modules_json(lora.exclude_modules))},
                  {"fan_in_fan_out", architecture_of(model_type).stores_transposed},
                  {"inference_mode", true},
                  {"init_lora_weights", initialisation_json(lora.base_change)},
                  {"layers_pattern", or_null(lora.layers_pattern, lora.layers_pattern)},
                  {"layers_to_transform", or_null(lora.layers_to_transform, lora.layers_to_transform)},
                  {"lora_alpha", is_whole ? Json(static_cast<int64_t>(lora.alpha)) : Json(lora.alpha)},
                  {"lora_dropout", lora.dropout},
                  {"modules_to_save", or_null(saved, saved)},
                  {"peft_type", "LORA"},
                  {"r", lora.r},
                  {"rank_pattern", Json::object()},
                  {"revision", nullptr},
                  {"target_modules", modules_json(targets)},
                  {"task_type", or_null(task, task)},
                  {"use_dora", false},
                  {"use_rslora", lora.use_rslora}};
  return json.dump(2) + "\n";
}

}  // namespace plimsoll
