#include "run/model_source.h"

#include <algorithm>
#include <filesystem>

#include "base/check.h"

namespace plimsoll {
namespace fs = std::filesystem;

AdapterSource find_adapter(const Arguments& arguments, RunPurpose purpose, const HubEnvironment& hub,
                           FileSystem& files) {
  AdapterSource adapter{.base_model = arguments.model_name_or_path};
  const bool is_named = !arguments.adapter_name_or_path.empty();
  const std::string& given = is_named ? arguments.adapter_name_or_path : arguments.model_name_or_path;
  std::error_code ignored;
  const bool is_preset = is_plan(purpose) && find_preset(given) && !fs::exists(given, ignored);
  if (given.empty() || is_preset) return adapter;
  const std::string path =
      is_named ? resolve_model_folder(files, hub, given, arguments.model_revision, kAdapterArgument)
               : resolve_model(files, hub, given, arguments.model_revision, kModelArgument);
  if (!is_named && !files.status(join_path(path, kAdapterConfigFile))) return adapter;
  ModelFolder folder = ModelFolder::open(files, path, WeightsNeeded::kNo);
  if (!folder.is_adapter()) {
    if (!is_named) return adapter;
    throw_error(ErrorCode::kBadData,
                "--adapter_name_or_path {}: the folder has no {}, so it is not an adapter; give a complete "
                "model as --model_name_or_path",
                given, kAdapterConfigFile);
  }
  AdapterConfig config =
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
  adapter.lora = std::move(config.lora);
  adapter.head = std::move(config.head);
  adapter.folder = std::move(folder);
  return adapter;
}

namespace {

// Returns the last matrix of the head that was saved with an adapter, which has a row per label. The pointers are null if there is none.
ModelFolder::Located find_adapter_head(const ModelFolder& adapter) {
  for (const std::string_view module : kHeadModules) {
    // The classifiers of RoBERTa and ELECTRA consist of two linear layers, `dense` and `out_proj`.
    for (const std::string_view layer : {"", ".out_proj"}) {
      const auto head = adapter.find(fmt::format("{}{}{}.weight", kAdapterPrefix, module, layer));
      if (head.tensor != nullptr && head.tensor->shape.size() == 2) return head;
    }
  }
  return {};
}

// Returns the problem type of a model with this head, or nothing if several types have the head.
std::optional<ProblemType> only_problem_type(const HeadKind& head) {
  const auto* record = std::ranges::find(kProblemTypes, &head, &ProblemTypeRecord::head);
  return record->is_in_config ? std::nullopt : std::optional(record->type);
}

}  // namespace

ModelConfig with_adapter_head(ModelConfig config, const ModelFolder& adapter, const AdapterHead& head) {
  const auto saved = find_adapter_head(adapter);
  const HeadKind* of_config =
      config.problem_type ? record_of(*config.problem_type).head : &kSequenceClassificationHead;
  const bool has_other_head =
      head.kind != nullptr ? head.kind != of_config : config.predicts_tokens() && saved.tensor != nullptr;
  if (has_other_head)
    config.problem_type = only_problem_type(head.kind != nullptr ? *head.kind : kSequenceClassificationHead);
  // A config.json that describes another head has no labels of this one.
  const bool has_labels = !adapter.config_text().empty() && !has_other_head;
  if (!has_labels && saved.tensor != nullptr && saved.tensor->shape[0] != config.num_labels) {
    config.num_labels = saved.tensor->shape[0];
    config.id2label.clear();
  }
  return config;
}

void check_adapter_head(const AdapterHead& head, const std::string& folder, ProblemType problem_type) {
  const HeadKind* wanted = record_of(problem_type).head;
  if (head.kind == nullptr || head.kind == wanted) return;
  throw_error(ErrorCode::kUsage,
              "{}: the adapter was trained for {} ({} in its {}), but this run is for {}; give data "
              "for {} and leave --problem_type and --task_name out, or use another adapter",
              folder, head.kind->description, head.entry, kAdapterConfigFile, wanted->description,
              head.kind->description);
}

std::optional<LoraConfig> choose_lora(const Arguments& arguments, RunPurpose purpose,
                                      const ModelConfig& config, const AdapterFacts& adapter) {
  if (arguments.lora_r && !adapter.stored && !is_training(purpose)) {
    throw_error(ErrorCode::kUsage,
                "--lora_r {}: this command does not train, so it needs an existing adapter; give "
                "--adapter_name_or_path FOLDER",
                *arguments.lora_r);
  }
  return lora_of(arguments, config, adapter);
}

}  // namespace plimsoll
