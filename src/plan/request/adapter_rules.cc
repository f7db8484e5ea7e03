// Checks the arguments that concern adapters (LoRA), and turns them into the adapter's settings.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "models/lora.h"
#include "plan/request/rules.h"

namespace plimsoll {
namespace {

// Returns the layer numbers that --layers_to_transform lists. Requires: resolve_arguments() has checked that the elements are numbers.
std::vector<int64_t> layers_of(const Arguments& arguments) {
  std::vector<int64_t> layers;
  for (const std::string& layer : arguments.layers_to_transform) layers.push_back(std::stoll(layer));
  return layers;
}

// Checks that the adapter settings that the user gives do not contradict those of the existing adapter.
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

// Sets the data type in which the base model is stored. Errors: kUsage for 4-bit or 8-bit weights without an adapter.
void set_base_weights(const Arguments& arguments, const ModelConfig& config,
                      std::optional<LoraConfig>& lora) {
  if (!arguments.load_in_4bit && !arguments.load_in_8bit) return;
  if (!lora) {
    throw_error(ErrorCode::kUsage,
                "--load_in_{}bit: weights in {} bits cannot be trained; give --lora_r to train a new adapter "
                "for them, or --adapter_name_or_path to use an existing one",
                arguments.load_in_4bit ? 4 : 8, arguments.load_in_4bit ? 4 : 8);
  }
  // Refuses settings that PEFT does not support: PEFT can change a quantized base model for OLoRA, but not for PiSSA.
  if (lora->base_change == BaseChange::kPissa) {
    throw_error(ErrorCode::kUsage,
                "--load_in_{}bit: the adapter was initialised with pissa, which changes the base model, and "
                "Plimsoll, like PEFT, can only change a base that is not quantized; leave the setting out, "
                "or merge the adapter (plimsoll merge) and train a new one on the result",
                arguments.load_in_4bit ? 4 : 8);
  }
  lora->base_weights = arguments.load_in_8bit                   ? BaseWeights::kInt8
                       : arguments.bnb_4bit_quant_type == "fp4" ? BaseWeights::kFp4
                                                                : BaseWeights::kNf4;
  lora->double_quant = arguments.load_in_4bit && arguments.bnb_4bit_use_double_quant;
  lora->as_loaded_modules = arguments.llm_int8_skip_modules;
  check_left_out(model_weights(config), {.as_loaded_modules = lora->as_loaded_modules});
}

LoraConfig new_adapter(const Arguments& arguments, const ModelConfig& config,
                       const std::vector<std::string>& new_modules) {
  LoraConfig lora{.r = *arguments.lora_r,
                  .alpha = arguments.lora_alpha.value_or(8.0),
                  .dropout = arguments.lora_dropout,
                  .target_modules = arguments.lora_target_modules,
                  .exclude_modules = arguments.exclude_modules,
                  .layers_to_transform = layers_of(arguments),
                  .modules_to_save = arguments.modules_to_save,
                  .use_rslora = arguments.use_rslora};
  const std::vector<WeightSpec> specs = model_weights(config);
  check_left_out(specs, lora);
  exclude_saved_targets(specs, lora);
  for (const std::string& module : new_modules) {
    if (!is_saved_with_adapter(module, lora)) lora.modules_to_save.push_back(module);
  }
  return lora;
}

}  // namespace

std::optional<LoraConfig> lora_of(const Arguments& arguments, const ModelConfig& config,
                                  const AdapterFacts& adapter) {
  std::optional<LoraConfig> lora = adapter.stored;
  if (lora) {
    check_against_adapter(arguments, *lora);
    if (arguments.lora_dropout > 0) lora->dropout = arguments.lora_dropout;
  } else if (arguments.lora_r) {
    lora = new_adapter(arguments, config, adapter.new_modules);
  }
  set_base_weights(arguments, config, lora);
  if (lora) lora_targets(model_weights(config), config.model_type, *lora);  // throws for unknown modules
  return lora;
}

}  // namespace plimsoll
