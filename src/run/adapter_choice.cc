#include "run/adapter_choice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "models/lora_init.h"
#include "run/model_names.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Requires: resolve_arguments() has checked that they are numbers.
std::vector<int64_t> layers_of(const Arguments& arguments) {
  std::vector<int64_t> layers;
  for (const std::string& layer : arguments.layers_to_transform) layers.push_back(std::stoll(layer));
  return layers;
}

// Checks that settings of adapters, if they are given, are equal to those of the existing adapter.
void check_against_adapter(const Arguments& arguments, const LoraConfig& lora) {
  const auto differ = [&](const char* name, const auto& given, const auto& has) {
    throw_error(ErrorCode::kUsage,
                "--{} {}: the adapter has {}; leave the setting out, or train a new adapter", name, given,
                has);
  };
  if (arguments.lora_r && *arguments.lora_r != lora.r) differ("lora_r", *arguments.lora_r, lora.r);
  if (arguments.lora_alpha && *arguments.lora_alpha != lora.alpha)
    differ("lora_alpha", *arguments.lora_alpha, lora.alpha);
  const auto compare = [&](const char* name, auto given, auto has) {
    if (given.empty()) return;
    std::sort(given.begin(), given.end());
    std::sort(has.begin(), has.end());
    if (given != has)
      differ(name, fmt::format("{}", fmt::join(given, ",")),
             has.empty() ? "none" : fmt::format("{}", fmt::join(has, ",")));
  };
  compare("lora_target_modules", arguments.lora_target_modules, lora.target_modules);
  compare("exclude_modules", arguments.exclude_modules, lora.exclude_modules);
  compare("layers_to_transform", layers_of(arguments), lora.layers_to_transform);
}

// Sets the precision of the base model. Errors: kUsage for weights in few bits without an adapter.
void set_base_weights(const Arguments& arguments, const ModelConfig& config,
                      std::optional<LoraConfig>& lora) {
  if (!arguments.load_in_4bit && !arguments.load_in_8bit) return;
  if (!lora) {
    throw_error(ErrorCode::kUsage,
                "--load_in_{}bit: weights in {} bits are not trained; give --lora_r to train adapters in "
                "addition to them, or --adapter_name_or_path",
                arguments.load_in_4bit ? 4 : 8, arguments.load_in_4bit ? 4 : 8);
  }
  if (lora->base_change != BaseChange::kNone) {
    throw_error(
        ErrorCode::kUsage,
        "--load_in_{}bit: the adapter's initialisation ({}) changed the base, and Plimsoll computes that "
        "change only for a base that is not quantized; leave the setting out",
        arguments.load_in_4bit ? 4 : 8, lora->base_change == BaseChange::kPissa ? "pissa" : "olora");
  }
  lora->base_weights = arguments.load_in_8bit                   ? BaseWeights::kInt8
                       : arguments.bnb_4bit_quant_type == "fp4" ? BaseWeights::kFp4
                                                                : BaseWeights::kNf4;
  lora->double_quant = arguments.load_in_4bit && arguments.bnb_4bit_use_double_quant;
  lora->as_loaded_modules = arguments.llm_int8_skip_modules;
  check_left_out(model_weights(config), {.as_loaded_modules = lora->as_loaded_modules});
}

}  // namespace

AdapterSource find_adapter(const Arguments& arguments, RunPurpose purpose, const HubEnvironment& hub,
                           FileSystem& files) {
  AdapterSource adapter{.base_model = arguments.model_name_or_path};
  const bool is_named = !arguments.adapter_name_or_path.empty();
  const std::string& given = is_named ? arguments.adapter_name_or_path : arguments.model_name_or_path;
  std::error_code ignored;
  const bool is_preset = purpose == RunPurpose::kPlan && find_preset(given) && !fs::exists(given, ignored);
  if (given.empty() || is_preset) return adapter;
  const std::string path =
      is_named ? resolve_model_folder(files, hub, given, arguments.model_revision, kAdapterArgument)
               : resolve_model(files, hub, given, arguments.model_revision, kModelArgument);
  if (!is_named && !files.status(join_path(path, kAdapterConfigFile))) return adapter;
  ModelFolder folder = ModelFolder::open(files, path, WeightsNeeded::kNo);
  if (!folder.is_adapter()) {
    if (!is_named) return adapter;
    throw_error(ErrorCode::kBadData,
                "--adapter_name_or_path {}: it has no {}; give a complete model as --model_name_or_path",
                given, kAdapterConfigFile);
  }
  const AdapterConfig config =
      parse_adapter_config(folder.adapter_config_text(), join_path(path, kAdapterConfigFile));
  if (!is_named || adapter.base_model.empty()) adapter.base_model = config.base_model;
  if (adapter.base_model.empty()) {
    throw_error(ErrorCode::kUsage,
                "{}: the adapter does not name its base model: give --model_name_or_path BASE "
                "--adapter_name_or_path {}",
                given, given);
  }
  if (is_training(purpose) && !config.trained_otherwise.empty()) {
    throw_error(
        ErrorCode::kUsage,
        "{}: the adapter was made with {}, with which PEFT trains in another way; Plimsoll can evaluate "
        "it, predict with it and merge it, but not train it further. Merge it and begin a new adapter",
        join_path(path, kAdapterConfigFile), config.trained_otherwise);
  }
  check_against_adapter(arguments, config.lora);
  adapter.lora = config.lora;
  adapter.folder = std::move(folder);
  return adapter;
}

ModelConfig with_adapter_head(ModelConfig config, const ModelFolder& adapter) {
  const auto head = adapter.find(std::string(kAdapterPrefix) + "classifier.weight");
  if (adapter.config_text().empty() && head.tensor != nullptr && head.tensor->shape.size() == 2 &&
      head.tensor->shape[0] != config.num_labels) {
    config.num_labels = head.tensor->shape[0];
    config.id2label.clear();
  }
  return config;
}

std::optional<LoraConfig> choose_lora(const Arguments& arguments, RunPurpose purpose,
                                      const ModelConfig& config, const AdapterSource& adapter) {
  std::optional<LoraConfig> lora = adapter.lora;
  if (adapter.folder) {
    if (arguments.lora_dropout > 0) lora->dropout = arguments.lora_dropout;
  } else if (arguments.lora_r) {
    if (!is_training(purpose)) {
      throw_error(ErrorCode::kUsage,
                  "--lora_r {}: there is no adapter to evaluate; give --adapter_name_or_path FOLDER",
                  *arguments.lora_r);
    }
    lora = LoraConfig{.r = *arguments.lora_r,
                      .alpha = arguments.lora_alpha.value_or(8.0),
                      .dropout = arguments.lora_dropout,
                      .target_modules = arguments.lora_target_modules,
                      .exclude_modules = arguments.exclude_modules,
                      .layers_to_transform = layers_of(arguments),
                      .modules_to_save = arguments.modules_to_save,
                      .use_rslora = arguments.use_rslora};
    check_left_out(model_weights(config), *lora);
    exclude_saved_targets(model_weights(config), *lora);
  }
  set_base_weights(arguments, config, lora);
  if (lora) check_base_change(lora_targets(model_weights(config), config.model_type, *lora), *lora);
  return lora;
}

}  // namespace plimsoll
