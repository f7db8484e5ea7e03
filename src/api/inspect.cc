#include "plimsoll/inspect.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/units.h"
#include "io/ckpt/checkpoint.h"
#include "io/ckpt/model_folder.h"
#include "io/ckpt/safetensors.h"
#include "io/data/data_columns.h"
#include "io/data/document_reader.h"
#include "io/data/labels.h"
#include "io/data/table_reader.h"
#include "io/data/text_file.h"
#include "io/data/text_split.h"
#include "io/data/word_labels.h"
#include "io/hub/hub_cache.h"
#include "io/text/tokenizer.h"
#include "models/model.h"
#include "show/report/result_files.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

using OrderedJson = nlohmann::ordered_json;

// A description as text for people and as JSON for programs.
struct Described {
  std::string text = {};
  OrderedJson json = OrderedJson::object();
};

constexpr int64_t kEveryToken = std::numeric_limits<int32_t>::max();

Described inspect_safetensors(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(posix_file_system(), path);
  int64_t elements = 0;
  std::string lines;
  OrderedJson tensors = OrderedJson::array();
  for (const StoredTensor& tensor : file.tensors()) {
    elements += tensor.num_elements();
    lines += fmt::format("  {:<72} {:>5} {}\n", tensor.name, stored_type_name(tensor.type),
                         format_shape(tensor.shape));
    tensors.push_back(
        {{"name", tensor.name}, {"type", stored_type_name(tensor.type)}, {"shape", tensor.shape}});
  }
  return {.text = fmt::format("{}: {}, {}, {}\n{}", path, counted(file.size_bytes(), "byte"),
                              counted(file.tensors().size(), "tensor"), counted(elements, "element"), lines),
          .json = {{"path", path},
                   {"kind", "safetensors"},
                   {"size_bytes", file.size_bytes()},
                   {"elements", elements},
                   {"tensors", std::move(tensors)}}};
}

OrderedJson counts_json(const std::vector<std::string>& names, const std::vector<int64_t>& counts) {
  OrderedJson list = OrderedJson::array();
  for (size_t i = 0; i < names.size(); ++i) list.push_back({{"label", names[i]}, {"rows", counts[i]}});
  return list;
}

// Returns a table of at most 40 labels: the name, and the number of rows that have it.
std::string count_lines(const std::vector<std::string>& names, const std::vector<int64_t>& counts) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == 40) return text + "    ...\n";
    text += fmt::format("    {:<40} {:>9}\n", names[i].substr(0, 40), counts[i]);
  }
  return text;
}

// Describes the labels that training would find in the label column. Returns text for people, and adds the same facts to `json`.
std::string label_text(const TextSplit& split, const InspectOptions& options, OrderedJson& json) {
  LabelOptions wanted;
  if (!options.problem_type.empty()) wanted.kind = parse_task(options.problem_type).labels;
  if (!options.label_delimiter.empty()) {
    wanted.delimiter = options.label_delimiter;
    wanted.has_delimiter = true;
  }
  const LabelScheme scheme = infer_labels(split, wanted);
  std::string warnings;
  for (const std::string& warning : label_warnings(split, scheme, wanted.kind.has_value())) {
    warnings += fmt::format("  {}: {}\n", scheme.kind == LabelKind::kNumbers ? "note" : "warning", warning);
    json["warnings"].push_back(warning);
  }
  const Labels labels = encode_labels(split, scheme);
  const std::string problem(problem_type_name(task_of(scheme.kind).problem_type));
  json["problem_type"] = problem;
  if (scheme.kind == LabelKind::kNumbers) {
    const auto [lowest, highest] = std::ranges::minmax(labels.values);
    json["numbers"] = {{"per_row", scheme.num_labels}, {"lowest", lowest}, {"highest", highest}};
    return warnings + fmt::format("  {}: {} per row, from {} to {}\n", problem,
                                  counted(scheme.num_labels, "number"), lowest, highest);
  }
  std::vector<int64_t> counts(static_cast<size_t>(scheme.num_labels));
  for (int32_t id : labels.classes) ++counts[static_cast<size_t>(id)];
  for (size_t i = 0; i < labels.values.size(); ++i) counts[i % counts.size()] += labels.values[i] > 0 ? 1 : 0;
  std::vector<std::string> names = scheme.names_by_id();
  std::string what = counted(scheme.num_labels, "label");
  if (names.empty()) {
    what = "vectors of " + counted(scheme.num_labels, "target") + ", 0 or 1";
    for (int64_t i = 0; i < scheme.num_labels; ++i) names.push_back("LABEL_" + std::to_string(i));
  }
  json["labels"] = counts_json(names, counts);
  return warnings + fmt::format("  {}: {}\n", problem, what) + count_lines(names, counts);
}

// Describes the words and tags that training for token classification would read: returns text, and adds the same to
// `json`.
std::string word_text(Table table, const ColumnChoice& columns, OrderedJson& json) {
  std::string text = fmt::format("  words: '{}', {}\n", columns.first,
                                 columns.has_label ? "tags: '" + columns.label + "'" : "no tags");
  try {
    const TextSplit split(std::move(table), columns);
    for (int64_t row = 0; row < std::min<int64_t>(3, split.num_rows()); ++row) {
      std::string words;
      for (int64_t i = 0; i < split.num_words(row); ++i) {
        words += fmt::format("{}{}", i == 0 ? "" : " ", split.word(row, i));
        if (split.num_tags(row) > 0) words += fmt::format("/{}", split.tag(row, i));
      }
      text += fmt::format("  line {}: {}\n", split.line(row), excerpt(words, 90));
    }
    if (!columns.has_label) return text;
    const LabelScheme scheme = infer_word_labels(split);
    json["problem_type"] = problem_type_name(task_of(scheme.kind).problem_type);
    std::vector<int64_t> counts(static_cast<size_t>(scheme.num_labels));
    for (int32_t id : encode_word_labels(split, scheme).classes) {
      if (id >= 0) ++counts[static_cast<size_t>(id)];
    }
    json["labels"] = counts_json(scheme.names, counts);
    return text + fmt::format("  one class per word: {}\n", counted(scheme.num_labels, "tag")) +
           count_lines(scheme.names, counts);
  } catch (const Error& error) {
    json["refusal"] = error.what();
    return text + "  training refuses it: " + error.what() + "\n";
  }
}

// Describes the columns and labels that training would read: returns text, and adds the same to `json`.
std::string reading_text(Table table, const InspectOptions& options, OrderedJson& json) {
  const ColumnChoice columns =
      choose_columns(table, {.text = options.text_column_names, .label = options.label_column_name});
  json["text_columns"] = OrderedJson::array({columns.first});
  if (columns.second) json["text_columns"].push_back(*columns.second);
  json["label_column"] = columns.has_label ? OrderedJson(columns.label) : OrderedJson();
  if (!columns.note.empty()) json["notes"] = OrderedJson::array({columns.note});
  if (columns.has_words) return word_text(std::move(table), columns, json);
  std::string text = fmt::format(
      "  {}: '{}'{}, {}\n", columns.has_ids ? "token ids" : "text", columns.first,
      columns.second ? " and '" + *columns.second + "'" : std::string(),
      columns.has_label
          ? "label: '" + columns.label + "'"
          : fmt::format("no label: there is no column '{}'; choose another with --label_column_name",
                        columns.label));
  if (!columns.note.empty()) text += "  note: " + columns.note + "\n";
  if (table.num_rows() == 0) return text;
  try {
    const TextSplit split(std::move(table), columns);
    for (int64_t row = 0; row < std::min<int64_t>(3, split.num_rows()); ++row) {
      text += fmt::format("  line {}: {}{}\n", split.line(row), excerpt(split.first_text(row), 90),
                          split.is_pair() ? " | " + excerpt(*split.second_text(row), 90) : std::string());
    }
    return columns.has_label ? text + label_text(split, options, json) : text;
  } catch (const Error& error) {
    json["refusal"] = error.what();
    return text + "  training refuses it: " + error.what() + "\n";
  }
}

// Describes the documents that the training of a language model would read.
Described inspect_documents(const std::string& path, const InspectOptions& options) {
  DocumentOptions reading{.line_breaks = LineBreaks::kDrop,
                          .quotes = options.quoting == "none" ? QuoteRule::kNone : QuoteRule::kRfc4180,
                          .reads_chats = parse_task(options.problem_type).labels == LabelKind::kNextToken};
  if (!options.text_column_names.empty()) reading.column = options.text_column_names.front();
  int64_t num_documents = 0;
  std::string shown;
  const ColumnChoice columns = read_documents(path, reading, [&](const TextSplit& part) {
    for (int64_t row = 0; row < part.num_rows() && num_documents + row < 3; ++row) {
      shown += fmt::format("  line {}: {}\n", part.line(row),
                           part.has_ids() ? counted(part.tokens(kEveryToken).length(row), "token id")
                                          : excerpt(part.first_text(row), 90));
    }
    num_documents += part.num_rows();
  });
  const std::string column = columns.first.empty() ? "" : fmt::format(", column '{}'", columns.first);
  const std::string note = columns.note.empty() ? "" : "  note: " + columns.note + "\n";
  const char* const noun = columns.chat == ChatColumns::kNone ? "document" : "conversation";
  return {.text = fmt::format("{}: {}{}\n", path, counted(num_documents, noun), column) + note + shown,
          .json = {{"path", path},
                   {"kind", "documents"},
                   {"documents", num_documents},
                   {"unit", noun},
                   {"column", columns.first.empty() ? OrderedJson() : OrderedJson(columns.first)}}};
}

Described inspect_table(const std::string& path, const InspectOptions& options) {
  if (!options.problem_type.empty() && are_tokens(parse_task(options.problem_type).labels))
    return inspect_documents(path, options);
  Table table =
      read_table(path, {.quotes = options.quoting == "none" ? QuoteRule::kNone : QuoteRule::kRfc4180});
  std::string head =
      fmt::format("{}: {}, columns {}\n", path, counted(table.num_rows(), "row"), table.column_list());
  OrderedJson json{{"path", path},
                   {"kind", "table"},
                   {"rows", table.num_rows()},
                   {"columns", table.columns()},
                   {"warnings", table.warnings()}};
  for (const std::string& warning : table.warnings()) head += "  warning: " + warning + "\n";
  try {
    std::string text = head + reading_text(std::move(table), options, json);
    return {.text = std::move(text), .json = std::move(json)};
  } catch (const Error& error) {
    if (!options.text_column_names.empty()) throw;
    json["refusal"] = error.what();
    return {.text = head + "  training refuses it: " + error.what() + "\n", .json = std::move(json)};
  }
}

Described inspect_tokenizer(const std::string& path) {
  const auto tokenizer = Tokenizer::load(path);
  OrderedJson special_tokens = OrderedJson::object();
  const auto special = [&](const char* name, const std::optional<int32_t>& id) {
    if (id) special_tokens[name] = {{"id", *id}, {"token", tokenizer->token(*id).value_or("")}};
    return id ? fmt::format("  {:<5} {:>7}  {}\n", name, *id, tokenizer->token(*id).value_or(""))
              : std::string();
  };
  const SpecialTokenIds& ids = tokenizer->special_ids();
  std::string text =
      fmt::format("tokenizer from {}: {} tokens, {}, longest input {}\n", tokenizer->source(),
                  tokenizer->vocab_size(), tokenizer->lowercase() ? "lower-cased" : "cased",
                  tokenizer->model_max_length() ? std::to_string(*tokenizer->model_max_length())
                                                : std::string("not stated"));
  for (const auto& [name, id] :
       {std::pair("pad", ids.pad), std::pair("unk", ids.unk), std::pair("cls", ids.cls),
        std::pair("sep", ids.sep), std::pair("mask", ids.mask)})
    text += special(name, id);
  return {.text = std::move(text),
          .json = {{"path", path},
                   {"kind", "tokenizer"},
                   {"source", tokenizer->source()},
                   {"tokens", tokenizer->vocab_size()},
                   {"lower_case", tokenizer->lowercase()},
                   {"max_length", tokenizer->model_max_length() ? OrderedJson(*tokenizer->model_max_length())
                                                                : OrderedJson()},
                   {"special_tokens", std::move(special_tokens)}}};
}

// Returns the JSON on one line. Bytes that are not valid UTF-8, which paths may contain, are replaced.
std::string compact(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Inspection inspection_of(const Described& described) {
  return {.text = described.text, .json = compact(described.json)};
}

Inspection inspect_folder(const std::string& path) {
  FileSystem& files = posix_file_system();
  Inspection found;
  std::string& text = found.text;
  OrderedJson json{{"path", path}, {"kind", "folder"}};
  if (fs::exists(path + "/config.json")) {
    const ModelFolder folder = ModelFolder::open(files, path, WeightsNeeded::kNo);
    const ModelConfig config = parse_model_config(folder.config_text(), path + "/config.json");
    int64_t parameters = 0;
    for (const WeightSpec& spec : model_weights(config)) parameters += spec.elements();
    text += fmt::format("{}: {}, {}, width {}, {}, vocabulary {}, {}, {}\n", path, config.model_type,
                        counted(config.num_hidden_layers, "layer"), config.hidden_size,
                        counted(config.num_attention_heads, "head"), config.vocab_size,
                        describe_outputs(config), counted(parameters, "parameter"));
    json["model"] = {{"model_type", config.model_type},   {"layers", config.num_hidden_layers},
                     {"hidden_size", config.hidden_size}, {"heads", config.num_attention_heads},
                     {"vocabulary", config.vocab_size},   {"outputs", describe_outputs(config)},
                     {"parameters", parameters},          {"labels", config.id2label}};
    for (size_t i = 0; i < config.id2label.size() && i < 60; ++i)
      text += fmt::format("  label {:>3}  {}\n", i, config.id2label[i]);
    json["weight_files"] = OrderedJson::array();
    for (const SafetensorsFile& file : folder.weight_files()) {
      Described weights = inspect_safetensors(file.path());
      text += weights.text;
      json["weight_files"].push_back(std::move(weights.json));
    }
  }
  if (fs::exists(path + "/" + std::string(kManifestFile))) {
    const auto damage = find_damage(files, path, VerifyDepth::kHashes);
    found.is_whole = !damage;
    json["checkpoint"] = {{"is_whole", found.is_whole},
                          {"damage", damage ? OrderedJson(*damage) : OrderedJson()}};
    text += damage ? "checkpoint DAMAGED: " + *damage + "\n"
                   : "checkpoint is valid: every size and hash agrees with the manifest\n";
    if (!damage && fs::exists(path + "/" + std::string(kRunStateFile))) {
      const OpenCheckpoint checkpoint = open_checkpoint(files, path);
      const auto state = nlohmann::json::parse(checkpoint.run_state_json);
      for (const char* key : {"step", "max_steps", "epoch"})
        json["checkpoint"][key] = state.contains(key) ? OrderedJson(state[key]) : OrderedJson();
      text += fmt::format("  step {} of {}, epoch {}\n", state.value("step", 0), state.value("max_steps", 0),
                          state.value("epoch", 0.0));
    }
  }
  if (!find_tokenizer_files(files, path).empty()) {
    Described tokenizer = inspect_tokenizer(path);
    text += tokenizer.text;
    tokenizer.json.erase("path");
    tokenizer.json.erase("kind");
    json["tokenizer"] = std::move(tokenizer.json);
  }
  if (text.empty()) {
    throw_error(
        ErrorCode::kUsage,
        "{}: a folder without config.json and without a tokenizer; give a model, a checkpoint or a data file",
        path);
  }
  found.json = compact(json);
  return found;
}

// Returns the folder of a model in the local cache. Called if no file or folder has this name, because it may then be the name of the model
// on the hub. Errors: kUsage.
std::string find_hub_folder(const std::string& name, const Environment& environment) {
  const bool is_file = fs::path(name).extension() == ".safetensors" || is_data_file(name);
  if (is_file || !is_hub_name(name)) {
    throw_error(ErrorCode::kUsage, "'{}': no such file{}; check the path", name, is_file ? "" : " or folder");
  }
  constexpr FolderArgument kInspect{.name = "plimsoll inspect", .holds = kModelArgument.holds};
  try {
    return find_in_hub_cache(posix_file_system(), hub_environment(environment), name, "main", kInspect);
  } catch (const Error& error) {
    throw_error(ErrorCode::kUsage, "'{}': no such file or folder, and no model of that name: {}", name,
                error.what());
  }
}

}  // namespace

Inspection inspect_path(const std::string& path, const InspectOptions& options) {
  std::error_code error;
  if (!fs::exists(path, error)) return inspect_folder(find_hub_folder(path, options.environment));
  if (fs::is_directory(path)) return inspect_folder(path);
  if (path.ends_with(".safetensors")) return inspection_of(inspect_safetensors(path));
  const std::string name = fs::path(path).filename().string();
  if (name == "tokenizer.json" || name == "vocab.txt" || name == "vocab.json") {
    const fs::path folder = fs::path(path).parent_path();
    return inspection_of(inspect_tokenizer(folder.empty() ? "." : folder.string()));
  }
  if (const auto run_file = inspect_run_file(path))
    return inspection_of(
        {.text = *run_file, .json = {{"path", path}, {"kind", "run_file"}, {"text", *run_file}}});
  if (is_data_file(path)) return inspection_of(inspect_table(path, options));
  const std::string extension = fs::path(path).extension().string();
  throw_error(ErrorCode::kUsage,
              "{}: inspect reads model folders, checkpoints, .safetensors, tokenizers, a run's JSON files "
              "and data (.csv, .tsv, .json, .jsonl, .conll), but not '{}'",
              path, extension.empty() ? "a file without extension" : extension);
}

}  // namespace plimsoll
