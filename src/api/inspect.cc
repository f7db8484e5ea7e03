#include "plimsoll/inspect.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "api/inspect_run.h"
#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "io/ckpt/model_folder.h"
#include "io/ckpt/safetensors.h"
#include "io/data/columns.h"
#include "io/data/labels.h"
#include "io/data/table_reader.h"
#include "io/hub/hub_cache.h"
#include "io/text/tokenizer.h"
#include "models/model.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::string inspect_safetensors(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(posix_file_system(), path);
  int64_t elements = 0;
  std::string tensors;
  for (const StoredTensor& tensor : file.tensors()) {
    elements += tensor.num_elements();
    tensors += fmt::format("  {:<72} {:>5} {}\n", tensor.name, stored_type_name(tensor.type),
                           shape_text(tensor.shape));
  }
  return fmt::format("{}: {} bytes, {} tensors, {} elements\n{}", path, file.size_bytes(),
                     file.tensors().size(), elements, tensors);
}

std::string inspect_table(const std::string& path) {
  const Table table = read_table(path);
  const ColumnChoice columns = choose_columns(table);
  std::string text = fmt::format("{}: {} rows, columns {}\n", path, table.num_rows(), table.column_list());
  text += fmt::format("  text: '{}'{}{}\n", columns.first,
                      columns.second ? " and '" + *columns.second + "'" : std::string(),
                      columns.has_label ? ", label: '" + columns.label + "'" : std::string(", no label"));
  if (columns.has_label && table.num_rows() > 0) {
    std::map<std::string, int64_t> counts;
    const int64_t column = table.find_column(columns.label);
    for (int64_t row = 0; row < table.num_rows(); ++row) ++counts[std::string(table.cell(row, column))];
    text += fmt::format("  {} different labels\n", counts.size());
    int shown = 0;
    for (const auto& [label, count] : counts) {
      if (++shown > 40) {
        text += "    ...\n";
        break;
      }
      text += fmt::format("    {:<40} {:>9}\n", label.substr(0, 40), count);
    }
  }
  for (int64_t row = 0; row < std::min<int64_t>(3, table.num_rows()); ++row) {
    text += fmt::format("  line {}: {}\n", table.line(row),
                        std::string(table.cell(row, table.find_column(columns.first))).substr(0, 90));
  }
  return text;
}

std::string inspect_tokenizer(const std::string& path) {
  const auto tokenizer = Tokenizer::load(path);
  const auto special = [&](const char* name, const std::optional<int32_t>& id) {
    return id ? fmt::format("  {:<5} {:>7}  {}\n", name, *id, tokenizer->token(*id).value_or(""))
              : std::string();
  };
  const SpecialTokenIds& ids = tokenizer->special_ids();
  return fmt::format("tokenizer from {}: {} tokens, {}, longest input {}\n", tokenizer->source(),
                     tokenizer->vocab_size(), tokenizer->lowercase() ? "lower-cased" : "cased",
                     tokenizer->model_max_length() ? std::to_string(*tokenizer->model_max_length())
                                                   : std::string("not stated")) +
         special("pad", ids.pad) + special("unk", ids.unk) + special("cls", ids.cls) +
         special("sep", ids.sep) + special("mask", ids.mask);
}

Inspection inspect_folder(const std::string& path) {
  FileSystem& files = posix_file_system();
  Inspection found;
  std::string& text = found.text;
  if (fs::exists(path + "/config.json")) {
    const ModelFolder folder = ModelFolder::open(files, path, WeightsNeeded::kNo);
    const ModelConfig config = parse_model_config(folder.config_text(), path + "/config.json");
    int64_t parameters = 0;
    for (const WeightSpec& spec : model_weights(config)) parameters += spec.elements();
    text += fmt::format("{}: {}, {} layers, width {}, {} heads, vocabulary {}, {} labels, {} parameters\n",
                        path, config.model_type, config.num_hidden_layers, config.hidden_size,
                        config.num_attention_heads, config.vocab_size, config.num_labels, parameters);
    for (size_t i = 0; i < config.id2label.size() && i < 60; ++i)
      text += fmt::format("  label {:>3}  {}\n", i, config.id2label[i]);
    for (const SafetensorsFile& file : folder.weight_files()) text += inspect_safetensors(file.path());
  }
  if (fs::exists(path + "/" + std::string(kManifestFile))) {
    const auto damage = find_damage(files, path, VerifyDepth::kHashes);
    found.is_whole = !damage;
    text += damage ? "checkpoint DAMAGED: " + *damage + "\n"
                   : "checkpoint verifies: every size and hash is as the manifest says\n";
    if (!damage && fs::exists(path + "/" + std::string(kRunStateFile))) {
      const OpenCheckpoint checkpoint = open_checkpoint(files, path);
      const auto state = nlohmann::json::parse(checkpoint.run_state_json);
      text += fmt::format("  step {} of {}, epoch {}\n", state.value("step", 0), state.value("max_steps", 0),
                          state.value("epoch", 0.0));
    }
  }
  if (!find_tokenizer_files(files, path).empty()) text += inspect_tokenizer(path);
  if (text.empty()) {
    throw_error(
        ErrorCode::kUsage,
        "{}: a folder without config.json and without a tokenizer; give a model, a checkpoint or a data file",
        path);
  }
  return found;
}

}  // namespace

Inspection inspect_path(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw_error(ErrorCode::kUsage, "'{}': no such file or folder", path);
  if (fs::is_directory(path)) return inspect_folder(path);
  if (path.ends_with(".safetensors")) return {.text = inspect_safetensors(path)};
  if (fs::path(path).filename() == "tokenizer.json" || fs::path(path).filename() == "vocab.txt") {
    const fs::path folder = fs::path(path).parent_path();
    return {.text = inspect_tokenizer(folder.empty() ? "." : folder.string())};
  }
  if (const auto run_file = inspect_run_file(path)) return {.text = *run_file};
  const std::string extension = fs::path(path).extension().string();
  for (const char* data : {".csv", ".tsv", ".tab", ".json", ".jsonl", ".ndjson"}) {
    if (extension == data) return {.text = inspect_table(path)};
  }
  throw_error(
      ErrorCode::kUsage,
      "{}: inspect knows model folders, checkpoints, .safetensors, tokenizers, a run's JSON files and data "
      "(.csv, .tsv, .json, .jsonl); this is '{}'",
      path, extension.empty() ? "a file without extension" : extension);
}

struct LineTokenizer::Impl {
  std::unique_ptr<Tokenizer> tokenizer;
};

LineTokenizer::LineTokenizer(const std::string& name, const Environment& environment)
    : impl_(std::make_unique<Impl>()) {
  impl_->tokenizer = Tokenizer::load(resolve_model_folder(posix_file_system(), hub_environment(environment),
                                                          name, "main", kTokenizerArgument));
}

LineTokenizer::~LineTokenizer() = default;

std::string LineTokenizer::encode_json(std::string_view line) const {
  const Encoding encoding = impl_->tokenizer->encode(line);
  std::string ids;
  std::string offsets;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    ids += (i == 0 ? "" : ", ") + std::to_string(encoding.ids[i]);
    offsets +=
        fmt::format("{}[{}, {}]", i == 0 ? "" : ", ", encoding.offsets[i].begin, encoding.offsets[i].end);
  }
  return "{\"ids\": [" + ids + "], \"offsets\": [" + offsets + "]}";
}

std::string LineTokenizer::encode_for_people(std::string_view line) const {
  std::string text;
  for (int32_t id : impl_->tokenizer->encode(line).ids) {
    text += fmt::format("{}{}({})", text.empty() ? "" : " ", impl_->tokenizer->token(id).value_or("?"), id);
  }
  return text;
}

}  // namespace plimsoll
