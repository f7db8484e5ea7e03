#include "run/tokenizer_source.h"

#include <algorithm>

#include "base/counted.h"

namespace plimsoll {
namespace {

bool is_dummy(const Arguments& arguments) {
  return arguments.dataset_name == "dummy";
}

bool names_training_data(const Arguments& arguments) {
  return !arguments.train_file.empty() || (!arguments.dataset_name.empty() && !arguments.task_name.empty());
}

// Returns the argument that names data; "" for none.
std::string data_argument(const Arguments& arguments) {
  if (!arguments.train_file.empty()) return "--train_file";
  if (!arguments.validation_file.empty()) return "--validation_file";
  if (!arguments.test_file.empty()) return "--test_file";
  return names_training_data(arguments) ? "--dataset_name" : "";
}

}  // namespace

std::string find_tokenizer_folder(const Arguments& arguments, RunPurpose purpose, const ModelSource& model,
                                  const HubEnvironment& hub, FileSystem& files) {
  if (is_dummy(arguments)) return {};
  const bool needs_none = purpose == RunPurpose::kPlan && !names_training_data(arguments);
  if (!arguments.tokenizer_name.empty() && !needs_none) {
    return resolve_model_folder(files, hub, arguments.tokenizer_name, arguments.model_revision,
                                kTokenizerArgument);
  }
  if (!model.weights || model.base_model.empty()) return {};
  // An adapter that contains a tokenizer was trained with it.
  const bool adapter_has_one = model.adapter && !model.adapter->tokenizer_files().empty();
  return adapter_has_one ? model.adapter->path() : model.weights->path();
}

DataUse choose_data_use(const Arguments& arguments, RunPurpose purpose, const ModelConfig& config,
                        const std::string& tokenizer_folder, FileSystem& files, Diagnostics& diagnostics) {
  // Random ids need no file, so that a plan can generate those of the run.
  if (purpose != RunPurpose::kPlan || is_dummy(arguments)) return DataUse::kReads;
  const std::string given = data_argument(arguments);
  if (given.empty()) return DataUse::kNone;
  const std::string instead = fmt::format("the plan is for batches of {} of {}",
                                          counted(arguments.per_device_train_batch_size, "text"),
                                          counted(max_seq_length(arguments, config), "token"));
  if (!names_training_data(arguments)) {
    diagnostics.note(
        fmt::format("{} is not read, because a plan without --train_file reads no data: {}", given, instead));
    return DataUse::kNone;
  }
  if (tokenizer_folder.empty() || find_tokenizer_files(files, tokenizer_folder).empty()) {
    diagnostics.note(fmt::format(
        "{} is not read, because no tokenizer is given (--tokenizer_name FOLDER): {}", given, instead));
    return DataUse::kNone;
  }
  return DataUse::kReads;
}

TokenizerSource load_tokenizer(const std::string& folder, const ModelConfig& config) {
  if (folder.empty()) {
    throw_error(ErrorCode::kUsage, "no tokenizer: with --config_name alone give --tokenizer_name FOLDER too");
  }
  TokenizerSource source{.tokenizer = Tokenizer::load(folder), .folder = folder};
  if (source.tokenizer->max_id() >= config.vocab_size) {
    throw_error(
        ErrorCode::kBadData,
        "{}: the tokenizer has the id {}, but the model's vocab_size is {}: they do not belong together. "
        "Take the "
        "tokenizer that came with the model, or train from scratch with --config_overrides vocab_size=N",
        folder, source.tokenizer->max_id(), config.vocab_size);
  }
  return source;
}

int64_t max_seq_length(const Arguments& arguments, const ModelConfig& config) {
  const int64_t length = is_dummy(arguments) ? arguments.dummy_seq_length : arguments.max_seq_length;
  return std::min(length, config.max_position_embeddings);
}

void warn_of_cut_length(const Arguments& arguments, const ModelConfig& config, Diagnostics& diagnostics) {
  const bool dummy = is_dummy(arguments);
  const int64_t given = dummy ? arguments.dummy_seq_length : arguments.max_seq_length;
  const int64_t by_default = dummy ? Arguments{}.dummy_seq_length : Arguments{}.max_seq_length;
  if (given <= config.max_position_embeddings) return;
  diagnostics.warn(fmt::format("--{} {}{} is more than the positions of the model; texts are truncated to {}",
                               dummy ? "dummy_seq_length" : "max_seq_length", given,
                               given == by_default ? ", the default," : "",
                               counted(config.max_position_embeddings, "token")));
}

}  // namespace plimsoll
