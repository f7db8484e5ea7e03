#include "run/adapter_choice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "models/lora_config.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Requires: resolve_arguments() saw that they are numbers.
std::vector<int64_t> layers_of(const Arguments& arguments) {
  std::vector<int64_t> layers;
  for (const std::string& layer : arguments.layers_to_transform) layers.push_back(std::stoll(layer));
  return layers;
}

// Settings beside an adapter say the same as it does.
void check_against_adapter(const Arguments& arguments, const LoraConfig& lora) {
  const auto differ = [&](const char* name, const auto& given, const auto& has) {
    throw_error(ErrorCode::kUsage,
                "--{} {}: the adapter has {}; leave the setting out, or begin a new adapter", name, given,
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

}  // namespace

void find_adapter(RunSetup& setup, const HubEnvironment& hub, FileSystem& files) {
  const Arguments& arguments = setup.arguments;
  setup.base_model = arguments.model_name_or_path;
  const std::string& given =
      arguments.adapter_name_or_path.empty() ? arguments.model_name_or_path : arguments.adapter_name_or_path;
  std::error_code ignored;
  if (given.empty() ||
      (setup.purpose == RunPurpose::kPlan && find_preset(given) && !fs::exists(given, ignored)))
    return;
  const bool is_named = !arguments.adapter_name_or_path.empty();
  const std::string path = resolve_model_folder(files, hub, given, arguments.model_revision,
                                                is_named ? kAdapterArgument : kModelArgument);
  if (!is_named && !files.status(join_path(path, kAdapterConfigFile))) return;
  ModelFolder folder = ModelFolder::open(files, path, WeightsNeeded::kNo);
  if (!folder.is_adapter()) {
    if (!is_named) return;
    throw_error(ErrorCode::kBadData,
                "--adapter_name_or_path {}: it has no {}; a whole model is given as "
                "--model_name_or_path",
                given, kAdapterConfigFile);
  }
  const AdapterConfig config =
      parse_adapter_config(folder.adapter_config_text(), join_path(path, kAdapterConfigFile));
  if (!is_named || setup.base_model.empty()) setup.base_model = config.base_model;
  if (setup.base_model.empty()) {
    throw_error(ErrorCode::kUsage,
                "{}: the adapter does not say what its base model is: give --model_name_or_path BASE "
                "--adapter_name_or_path {}",
                given, given);
  }
  check_against_adapter(arguments, config.lora);
  setup.lora = config.lora;
  setup.adapter = std::move(folder);
}

void set_adapter(RunSetup& setup) {
  const Arguments& arguments = setup.arguments;
  if (setup.adapter) {
    const auto head = setup.adapter->find(std::string(kAdapterPrefix) + "classifier.weight");
    if (setup.adapter->config_text().empty() && head.tensor != nullptr && head.tensor->shape.size() == 2 &&
        head.tensor->shape[0] != setup.model.num_labels) {
      setup.model.num_labels = head.tensor->shape[0];
      setup.model.id2label.clear();
    }
    if (arguments.lora_dropout > 0) setup.lora->dropout = arguments.lora_dropout;
    return;
  }
  if (!arguments.lora_r) return;
  if (setup.purpose == RunPurpose::kEvaluate || setup.purpose == RunPurpose::kPredict) {
    throw_error(ErrorCode::kUsage,
                "--lora_r {}: there is no adapter to evaluate; give --adapter_name_or_path FOLDER",
                *arguments.lora_r);
  }
  setup.lora = LoraConfig{.r = *arguments.lora_r,
                          .alpha = arguments.lora_alpha.value_or(8.0),
                          .dropout = arguments.lora_dropout,
                          .target_modules = arguments.lora_target_modules,
                          .exclude_modules = arguments.exclude_modules,
                          .layers_to_transform = layers_of(arguments),
                          .modules_to_save = arguments.modules_to_save,
                          .use_rslora = arguments.use_rslora};
  check_left_out(model_weights(setup.model), *setup.lora);
}

void set_base_weights(RunSetup& setup) {
  const Arguments& arguments = setup.arguments;
  const bool is_asked = arguments.load_in_4bit || arguments.load_in_8bit;
  if (!is_asked) return;
  if (!setup.lora) {
    throw_error(ErrorCode::kUsage,
                "--load_in_{}bit: weights in {} bits are not trained; give --lora_r to train adapters "
                "beside them, or "
                "--adapter_name_or_path",
                arguments.load_in_4bit ? 4 : 8, arguments.load_in_4bit ? 4 : 8);
  }
  LoraConfig& lora = *setup.lora;
  lora.base_weights = arguments.load_in_8bit                   ? BaseWeights::kInt8
                      : arguments.bnb_4bit_quant_type == "fp4" ? BaseWeights::kFp4
                                                               : BaseWeights::kNf4;
  lora.double_quant = arguments.load_in_4bit && arguments.bnb_4bit_use_double_quant;
  lora.as_loaded_modules = arguments.llm_int8_skip_modules;
  check_left_out(model_weights(setup.model), {.as_loaded_modules = lora.as_loaded_modules});
}

void check_adapter_folder(const RunSetup& setup) {
  // What is saved as an adapter takes the place of weights in its folder, and those of the base are needed.
  std::error_code ignored;
  if (setup.purpose != RunPurpose::kTrain || !setup.lora || !setup.weights ||
      !fs::equivalent(setup.weights->path(), setup.arguments.output_dir, ignored)) {
    return;
  }
  throw_error(ErrorCode::kUsage,
              "--output_dir {}: it is the folder of the base model, whose weights an adapter needs and would "
              "replace there; give the adapter a folder of its own",
              setup.arguments.output_dir);
}

}  // namespace plimsoll
