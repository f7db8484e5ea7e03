#include "run/model_source.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "run/corpus.h"
#include "run/stored_weights.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Returns --config_name. If it is the path of a config.json, returns the folder of this file.
std::string config_folder(const Arguments& arguments) {
  const fs::path given(arguments.config_name);
  std::error_code ignored;
  if (given.filename() != "config.json" || !fs::is_regular_file(given, ignored)) return given.string();
  return given.has_parent_path() ? given.parent_path().string() : ".";
}

std::string resolve_config(const Arguments& arguments, const HubEnvironment& hub, FileSystem& files) {
  const std::string name = config_folder(arguments);
  try {
    return resolve_model(files, hub, name, arguments.model_revision, kConfigArgument);
  } catch (const Error& error) {
    // If the error already suggests another name, the list of presets would not help, so it is not added to the message.
    if (error.code() == ErrorCode::kUsage) throw;
    const std::vector<std::string> presets = preset_names();
    throw Error(error.code(),
                fmt::format("{}\nPresets that need no files: {}{}", error.what(), fmt::join(presets, ", "),
                            did_you_mean(name, {presets.begin(), presets.end()})));
  }
}

// Returns the preset with this name, unless a file with this name exists.
std::optional<ModelConfig> preset_without_file(const std::string& name) {
  std::error_code ignored;
  if (fs::exists(name, ignored)) return std::nullopt;
  return find_preset(name);
}

ModelConfig config_of(const ModelFolder& folder) {
  return parse_model_config(folder.config_text(), folder.path() + "/config.json");
}

// Checks that the adapter was trained for the same type of model as the base. Errors: kBadData if it was not.
void check_model_types(const ModelFolder& adapter, const ModelConfig& adapter_config,
                       const ModelFolder& base) {
  const std::string base_type = config_of(base).model_type;
  if (adapter_config.model_type == base_type) return;
  throw_error(ErrorCode::kBadData,
              "the adapter {} does not belong to the base model {}: the model_type in the adapter's "
              "config.json is '{}', and the base's is '{}'; give the base of this adapter as "
              "--model_name_or_path",
              adapter.path(), base.path(), adapter_config.model_type, base_type);
}

// Reads the folder of the base model. A plan needs no weights, and a plan for a preset needs no folder either. If the folder of the adapter
// has a configuration, it is used instead of that of the base model.
void read_base(const Arguments& arguments, RunPurpose purpose, const std::optional<ModelFolder>& adapter,
               const HubEnvironment& hub, FileSystem& files, ModelSource& model) {
  const bool only_plans = is_plan(purpose);
  if (const auto preset = only_plans ? preset_without_file(model.base_model) : std::nullopt) {
    model.config = *preset;
  } else {
    const std::string path =
        resolve_model(files, hub, model.base_model, arguments.model_revision, kModelArgument);
    // An unsupported model is refused before its weights are searched, because converting its weights would not help.
    model.weights = ModelFolder::open(files, path, WeightsNeeded::kNo);
    const bool adapter_has_config = adapter && !adapter->config_text().empty();
    model.config = config_of(adapter_has_config ? *adapter : *model.weights);
    if (adapter_has_config) check_model_types(*adapter, model.config, *model.weights);
    if (!only_plans && !model.weights->has_weights())
      // With WeightsNeeded::kYes, open() throws an error that tells the user what to do about the missing weights.
      model.weights = ModelFolder::open(files, path, WeightsNeeded::kYes);
  }
  model.label = model.base_model;
}

void read_config(const Arguments& arguments, const HubEnvironment& hub, FileSystem& files,
                 ModelSource& model) {
  if (const auto preset = preset_without_file(arguments.config_name)) {
    model.config = *preset;
  } else {
    model.config =
        config_of(ModelFolder::open(files, resolve_config(arguments, hub, files), WeightsNeeded::kNo));
  }
  if (model.label.empty()) model.label = config_folder(arguments);
}

void override_config(const Arguments& arguments, ModelConfig& config) {
  std::string overrides;
  for (const auto& [key, value] : arguments.config_overrides)
    overrides += fmt::format("{}{}={}", overrides.empty() ? "" : ",", key, value);
  apply_config_overrides(config, overrides);
}

// Returns the last part of a path. A slash at the end, as completion in a shell appends it, is ignored.
std::string last_part(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return fs::path(path).filename().string();
}

// A saved adapter would replace the weights in its output folder, so the run is refused if this is the folder of its base model.
void check_adapter_folder(const Arguments& arguments, RunPurpose purpose, const ModelSource& model) {
  std::error_code ignored;
  if (purpose != RunPurpose::kTrain || !model.lora || !model.weights ||
      !fs::equivalent(model.weights->path(), arguments.output_dir, ignored)) {
    return;
  }
  throw_error(ErrorCode::kUsage,
              "--output_dir {}: it is the folder of the base model, whose weights an adapter needs and would "
              "replace there; choose another folder for the adapter",
              arguments.output_dir);
}

OtherShapes other_shapes(const Arguments& arguments) {
  return arguments.ignore_mismatched_sizes ? OtherShapes::kAreMissing : OtherShapes::kCount;
}

// Checks that the run does not use randomly initialised weights where it needs trained ones.
void check_weights(const Arguments& arguments, RunPurpose purpose, std::vector<WeightSpec> specs,
                   const ModelSource& model) {
  if (!model.weights) {
    if (is_training(purpose) || ends_with_plan(purpose, arguments)) return;
    // Random rows and prompts only measure speed and memory, which do not depend on the weights.
    if (arguments.dataset_name == "dummy") return;
    throw_error(
        ErrorCode::kUsage,
        "--config_name {}: this model has no trained weights, so the results would be those of random "
        "numbers; give --model_name_or_path, or --dataset_name dummy to measure the speed with random "
        "weights and {}",
        arguments.config_name, purpose == RunPurpose::kGenerate ? "prompts" : "rows");
  }
  if (model.adapter) {
    add_lora_weights(specs, model.config.model_type, *model.lora);
    std::erase_if(specs, [](const WeightSpec& spec) { return spec.in_adapter; });
    // An adapter works only with the exact base weights with which it was trained, so none of them may be missing.
    if (purpose == RunPurpose::kTrain) purpose = RunPurpose::kEvaluate;
  }
  check_stored_weights(specs, *model.weights, purpose, other_shapes(arguments),
                       model.adapter ? &*model.adapter : nullptr);
}

}  // namespace

ModelSource find_model(const Arguments& arguments, RunPurpose purpose, const HubEnvironment& hub,
                       FileSystem& files) {
  AdapterSource adapter = find_adapter(arguments, purpose, hub, files);
  if (adapter.base_model.empty() && arguments.config_name.empty()) {
    throw_error(ErrorCode::kUsage,
                "no model: give --model_name_or_path FOLDER (weights, config.json, tokenizer) or "
                "--config_name NAME (a "
                "preset such as bert-base-uncased, or a folder with config.json) to start from scratch");
  }
  ModelSource model{.base_model = adapter.base_model};
  if (!model.base_model.empty()) read_base(arguments, purpose, adapter.folder, hub, files, model);
  if (!arguments.config_name.empty()) read_config(arguments, hub, files, model);
  override_config(arguments, model.config);
  if (adapter.folder)
    model.config = with_adapter_head(std::move(model.config), *adapter.folder, adapter.head);
  TaskChoice task = choose_problem_type(arguments, purpose, model.config, adapter);
  model.config.problem_type = task.problem_type;
  model.task_note = std::move(task.note);
  model.label = last_part(model.label);
  if (is_generation(purpose) && !model.config.problem_type)
    model.config.problem_type = ProblemType::kCausalLm;
  model.adapter_head = std::move(adapter.head);
  const std::vector<WeightSpec> specs = model_weights(model.config);
  if (model.weights) unwrap_model_names(*model.weights, specs);
  model.adapter_facts.stored = std::move(adapter.lora);
  model.adapter = std::move(adapter.folder);
  if (model.weights && model.weights->has_weights())
    model.adapter_facts.new_modules = new_modules(specs, *model.weights, other_shapes(arguments));
  model.lora = choose_lora(arguments, purpose, model.config, model.adapter_facts);
  if (model.adapter) unwrap_adapter_names(*model.adapter, specs, model.config.model_type, *model.lora);
  check_weights(arguments, purpose, specs, model);
  const bool is_resumed = purpose == RunPurpose::kTrain && !resumable_checkpoint(files, arguments).empty();
  if (model.weights && is_resumed) model.weights->expect_replacement();
  check_adapter_folder(arguments, purpose, model);
  return model;
}

}  // namespace plimsoll
