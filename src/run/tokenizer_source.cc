#include "run/tokenizer_source.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/guarded_json.h"
#include "base/units.h"
#include "io/data/arrow_reader.h"
#include "io/data/table_reader.h"
#include "io/text/json_fields.h"
#include "io/text/tokenizer_spec.h"
#include "models/architecture.h"
#include "run/corpus.h"

namespace plimsoll {
namespace {

bool is_dummy(const Arguments& arguments) {
  return arguments.dataset_name == "dummy";
}

bool names_training_data(const Arguments& arguments) {
  return !arguments.train_file.empty() || (!arguments.dataset_name.empty() && !arguments.task_name.empty());
}

// Returns the name of the argument with which the user gives data; "" if there is none.
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
  // If an adapter's folder contains a tokenizer, the adapter was trained with it, so it is used instead of that of the base model.
  const bool adapter_has_one = model.adapter && !model.adapter->tokenizer_files().empty();
  return adapter_has_one ? model.adapter->path() : model.weights->path();
}

DataUse choose_data_use(const Arguments& arguments, RunPurpose purpose, const ModelConfig& config,
                        const std::string& tokenizer_folder, FileSystem& files, Diagnostics& diagnostics) {
  if (is_generation(purpose)) return DataUse::kNone;
  // Random token ids need no file, so they can be generated even for a plan.
  if (purpose != RunPurpose::kPlan || is_dummy(arguments)) return DataUse::kReads;
  const std::string given = data_argument(arguments);
  if (given.empty()) return DataUse::kNone;
  const std::string instead = fmt::format(
      "the plan is for batches of {} of {}",
      counted(arguments.per_device_train_batch_size, is_language_model(config) ? "block" : "text"),
      counted(max_seq_length(arguments, config), "token"));
  if (!names_training_data(arguments)) {
    diagnostics.note(
        fmt::format("{} is not read, because a plan without --train_file reads no data: {}", given, instead));
    return DataUse::kNone;
  }
  if (find_token_id_rows(arguments) == TokenIdRows::kFound) return DataUse::kReads;
  if (tokenizer_folder.empty() || find_tokenizer_files(files, tokenizer_folder).empty()) {
    // Without a tokenizer, a plan of a language model cannot use the data, because the number of blocks depends on the tokens.
    if (is_language_model(config)) {
      diagnostics.note(fmt::format(
          "{} is not read, because no tokenizer is given (--tokenizer_name FOLDER): {}", given, instead));
      return DataUse::kNone;
    }
    diagnostics.note(fmt::format(
        "{}: no tokenizer is given (--tokenizer_name FOLDER), so every text counts as {}, the most "
        "that a text may have; with the tokenizer the plan can only become smaller",
        given, counted(max_seq_length(arguments, config), "token")));
    return DataUse::kReadsRows;
  }
  return DataUse::kReads;
}

TokenIdRows find_token_id_rows(const Arguments& arguments) {
  TokenIdRows found = TokenIdRows::kNone;
  for (const std::string& path : {arguments.train_file, arguments.validation_file, arguments.test_file}) {
    const std::string name = without_compression(path).string();
    if (has_arrow() && is_arrow_data(path)) {
      found = TokenIdRows::kPossible;
      continue;
    }
    const bool is_json = name.find(".json") != std::string::npos;
    const bool is_csv = name.ends_with(".csv") || name.ends_with(".tsv");
    if (path.empty() || !is_data_file(path) || !(is_json || is_csv)) continue;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) continue;
    if (name != path) {
      found = TokenIdRows::kPossible;
      continue;
    }
    std::ifstream file(path, std::ios::binary);
    std::string head(size_t{64} << 10, '\0');
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<size_t>(file.gcount()));
    // A CSV file cannot contain rows of token ids. It is still treated as a file that may contain some: its reader then reports the
    // error, and its message is more helpful than that about a missing tokenizer.
    const std::string_view header = std::string_view(head).substr(0, head.find('\n'));
    if (is_csv && header.find("input_ids") != std::string_view::npos) found = TokenIdRows::kPossible;
    if (is_json && head.find("\"input_ids\"") != std::string::npos) return TokenIdRows::kFound;
  }
  return found;
}

TokenizerSource load_tokenizer(const std::string& folder, const Arguments& arguments,
                               const ModelConfig& config) {
  if (folder.empty()) {
    throw_error(ErrorCode::kUsage,
                "the run has no tokenizer, because --config_name names only a configuration; give "
                "--tokenizer_name FOLDER too");
  }
  const std::string model_type = arguments.tokenizer_name.empty() ? config.model_type : "";
  TokenizerSource source{.tokenizer = Tokenizer::load(folder, model_type), .folder = folder};
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

ChatTemplate find_chat_template(const Arguments& arguments, const TokenizerSource& source) {
  const Tokenizer& tokenizer = *source.tokenizer;
  return arguments.chat_template.empty() ? ChatTemplate::of_folder(source.folder, tokenizer)
                                         : ChatTemplate::named(arguments.chat_template, tokenizer);
}

void check_token_types(const Tokenizer& tokenizer, TextsPerRow texts, const std::string& file_name,
                       const ModelConfig& config) {
  const bool pair = texts == TextsPerRow::kTwo;
  const int32_t type = tokenizer.max_type_id(pair);
  // If the model has no embeddings of token types, it ignores them, so any type is accepted.
  const int64_t num_types = num_token_types(config);
  if (num_types == 0 || type < num_types) return;
  throw_error(
      ErrorCode::kBadData,
      "{}: {} with the token type {}, but the model has type_vocab_size {}{}. {}use a model with a larger "
      "type_vocab_size, or give every token the type 0: \"model_input_names\": [\"input_ids\", "
      "\"attention_mask\"] in tokenizer_config.json",
      file_name,
      pair ? "each row is a pair of texts, which the tokenizer encodes" : "the tokenizer encodes a text",
      type, num_types, num_types == 1 ? ", only the type 0" : "",
      pair ? "Read one text per row (--text_column_names NAME), " : "To read these texts, ");
}

std::vector<CopiedFile> copied_tokenizer_files(FileSystem& files, const TokenizerSource& source,
                                               const std::string& chat_template) {
  const std::string config_path = join_path(source.folder, text::kTokenizerConfigJson);
  std::vector<CopiedFile> copied;
  bool has_config = false;
  bool has_json = false;
  for (const std::string& name : find_tokenizer_files(files, source.folder)) {
    copied.push_back({.source_path = join_path(source.folder, name)});
    has_config = has_config || name == text::kTokenizerConfigJson;
    has_json = has_json || name == text::kTokenizerJson;
  }
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  // A folder that contains only vocab.txt always has a tokenizer of BERT, so the class need not be stored.
  bool has_class = !has_config && !has_json && source.tokenizer->transformers_class() == "BertTokenizer";
  if (has_config) {
    config = parse_json<nlohmann::ordered_json>(
        read_text_file(files, config_path, text::kMaxTokenizerFileBytes), config_path,
        {.max_depth = text::kMaxTokenizerJsonDepth, .max_bytes = text::kMaxTokenizerFileBytes});
    const auto stated = config.find("tokenizer_class");
    has_class = stated != config.end() && !stated->is_null();
  }
  if (has_class && chat_template.empty()) return copied;
  if (!has_class) config["tokenizer_class"] = source.tokenizer->transformers_class();
  if (!chat_template.empty()) config[kTrainedChatTemplate] = chat_template;
  const std::string text = config.dump(2) + "\n";
  if (!has_config) copied.push_back({.source_path = config_path});
  for (CopiedFile& file : copied) {
    if (file.source_path == config_path) file.text = text;
  }
  return copied;
}

int64_t block_size(const Arguments& arguments, const ModelConfig& config) {
  // The default block length of Hugging Face's script run_clm for a tokenizer that states no maximum length.
  constexpr int64_t kDefault = 1024;
  const int64_t of_files = is_masked_language_model(config) ? arguments.max_seq_length : kDefault;
  const int64_t by_default = is_dummy(arguments) ? arguments.dummy_seq_length : of_files;
  return std::min(arguments.block_size.value_or(by_default), max_sequence_length(config));
}

int64_t max_seq_length(const Arguments& arguments, const ModelConfig& config) {
  if (is_language_model(config)) return block_size(arguments, config);
  const int64_t length = is_dummy(arguments) ? arguments.dummy_seq_length : arguments.max_seq_length;
  return std::min(length, max_sequence_length(config));
}

void warn_of_cut_length(const Arguments& arguments, const ModelConfig& config, Diagnostics& diagnostics) {
  if (is_language_model(config)) {
    if (arguments.block_size.value_or(0) > max_sequence_length(config)) {
      diagnostics.warn(fmt::format("--block_size {} is more than the positions of the model; blocks have {}",
                                   *arguments.block_size, counted(max_sequence_length(config), "token")));
    }
    if (!is_masked_language_model(config) || arguments.block_size) return;
  }
  const bool dummy = is_dummy(arguments);
  const int64_t given = dummy ? arguments.dummy_seq_length : arguments.max_seq_length;
  const int64_t by_default = dummy ? Arguments{}.dummy_seq_length : Arguments{}.max_seq_length;
  const int64_t longest = max_sequence_length(config);
  // Nobody asked for the default length. If the positions of the model cut a text, warn_of_truncation() says so.
  if (given <= longest || given == by_default) return;
  const bool has_blocks = is_language_model(config) && !separates_documents(arguments, config);
  diagnostics.warn(fmt::format(
      "--{} {} is more than the positions of the model; {} {}", dummy ? "dummy_seq_length" : "max_seq_length",
      given, has_blocks ? "blocks have" : "texts are truncated to", counted(longest, "token")));
}

}  // namespace plimsoll
