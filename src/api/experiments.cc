#include "plimsoll/experiments.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/json_file.h"
#include "base/check.h"
#include "base/file.h"
#include "device/cpu/cpu_features.h"
#include "plimsoll/arguments.h"
#include "show/report/experiment_plot.h"
#include "show/report/experiment_table.h"
#include "show/report/result_files.h"

namespace plimsoll {
namespace {

using Words = std::vector<std::string>;

// One option with its values, as they stand on a command line.
struct Option {
  std::string name;
  Words words;
};

std::vector<Option> options_of(const Words& words) {
  std::vector<Option> options;
  for (const std::string& word : words) {
    if (word.starts_with("--") || options.empty()) {
      options.push_back({.name = word.substr(0, word.find('=')), .words = {}});
    }
    options.back().words.push_back(word);
  }
  return options;
}

// `words`, then `more`; an option that both have keeps the place of the first and the value of the second.
Words merged(const Words& words, const Words& more) {
  std::vector<Option> options = options_of(words);
  for (Option& option : options_of(more)) {
    const auto it =
        std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == option.name; });
    if (it == options.end()) {
      options.push_back(std::move(option));
    } else {
      *it = std::move(option);
    }
  }
  Words all;
  for (Option& option : options) {
    for (std::string& word : option.words) all.push_back(std::move(word));
  }
  return all;
}

// A name for a folder: what is no letter and no digit becomes one '-'.
std::string key_of(std::string_view name) {
  std::string key;
  for (const char c : name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
    if (is_plain) {
      key += c;
    } else if (!key.empty() && key.back() != '-') {
      key += '-';
    }
  }
  while (!key.empty() && key.back() == '-') key.pop_back();
  return key;
}

// Steps of a row on a GPU. Speed is that of the last two thirds (steady_samples_per_s): 30 steps of a batch
// of 4, and 18 of one of 32, which take longer.
constexpr const char* kGpuSteps = "50";
constexpr const char* kGpuStepsOfLargeBatch = "30";
constexpr const char* kAllSamples = "-1";

// What every row has in common: random ids, as in the documents, nothing saved, and a log that tells the
// steady state. The learning rate is small so that no choice of optimizer diverges on labels that mean
// nothing.
Words common_words(ExperimentDevice device) {
  const bool on_gpu = device == ExperimentDevice::kGpu;
  return {"--config_name",
          on_gpu ? "bert-large-uncased" : "MiniLM-L6-H384-uncased",
          "--dataset_name",
          "dummy",
          "--dummy_seq_length",
          "512",
          "--max_seq_length",
          "512",
          "--dummy_num_samples",
          on_gpu ? "960" : "48",
          "--per_device_train_batch_size",
          "4",
          "--num_train_epochs",
          "1",
          "--max_steps",
          on_gpu ? kGpuSteps : kAllSamples,
          "--learning_rate",
          "1e-6",
          "--logging_steps",
          "0.1",
          "--include_num_input_tokens_seen",
          "all",
          "--save_strategy",
          "no",
          "--disable_tqdm",
          "True"};
}

// A row as data. `methods`: what it changes; the summary takes rows that change one thing.
struct Row {
  std::string name;
  Words methods;
  Words words;
};

const Words kSplit{"--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "4"};
const Words kCheckpointing{"--gradient_checkpointing", "True"};

// The nine of the documents, in their order. `half` is their fp16, or what stands for it.
std::vector<Row> document_rows(const std::string& half) {
  const Words option{"--" + half, "True"};
  const Words small = merged(kSplit, kCheckpointing);
  const Words small_half = merged(small, option);
  const Words adafactor{"--optim", "adafactor"};
  const Words eight_bit{"--optim", "adamw_8bit"};
  return {{"vanilla, batch 4", {}, {}},
          {"gradient accumulation, 1 x 4", {"gradient accumulation, 1 x 4"}, kSplit},
          {"accumulation, checkpointing", {"accumulation", "checkpointing"}, small},
          {half + " mixed", {half + " mixed"}, option},
          {"acc., checkpointing, " + half, {"accumulation", "checkpointing", half}, small_half},
          {"Adafactor", {"Adafactor"}, adafactor},
          {"acc., checkpointing, " + half + ", Adafactor",
           {"accumulation", "checkpointing", half, "Adafactor"},
           merged(small_half, adafactor)},
          {"8-bit AdamW", {"8-bit AdamW"}, eight_bit},
          {"acc., checkpointing, " + half + ", 8-bit",
           {"accumulation", "checkpointing", half, "8-bit AdamW"},
           merged(small_half, eight_bit)}};
}

Words batch(int size) {
  return {"--per_device_train_batch_size", std::to_string(size)};
}

Words batch_32() {
  return merged(batch(32), {"--max_steps", kGpuStepsOfLargeBatch});
}

// Beyond the documents: each method of ours alone, then what they come to together.
std::vector<Row> our_rows(ExperimentDevice device) {
  const Words bf16{"--bf16", "True"};
  std::vector<Row> rows{{"gradient checkpointing", {"gradient checkpointing"}, kCheckpointing},
                        {"selective recompute", {"selective recompute"}, {"--recompute", "selective"}},
                        {"moments in bf16",
                         {"moments in bf16"},
                         {"--optim_args", "momentum_dtype=bfloat16,variance_dtype=bfloat16"}},
                        {"SGD", {"SGD"}, {"--optim", "sgd"}},
                        {"Lion", {"Lion"}, {"--optim", "lion_32bit"}},
                        {"8-bit Lion", {"8-bit Lion"}, {"--optim", "lion_8bit"}},
                        {"Adagrad", {"Adagrad"}, {"--optim", "adagrad"}},
                        {"8-bit Adagrad", {"8-bit Adagrad"}, {"--optim", "adagrad_8bit"}},
                        {"8-bit SGD with momentum",
                         {"8-bit SGD with momentum"},
                         {"--optim", "sgd_8bit", "--optim_args", "momentum=0.9"}},
                        {"update in the backward pass",
                         {"update in the backward pass"},
                         {"--optimizer_in_backward", "True", "--max_grad_norm", "0"}},
                        {"weights in bf16 alone", {"weights in bf16 alone"}, {"--dtype", "bfloat16"}},
                        {"LoRA, rank 8", {"LoRA, rank 8"}, {"--lora_r", "8"}},
                        {"batch 1", {"batch 1"}, batch(1)},
                        {"batch 8", {"batch 8"}, batch(8)}};
  if (device == ExperimentDevice::kCpu) return rows;
  const Words at_use =
      merged(merged(merged(kSplit, kCheckpointing), {"--fp16", "True", "--optim", "adafactor"}),
             {"--weight_copies", "at_use"});
  const Words offloaded_optimizer{"--offload_optimizer", "True"};
  const Words offloaded_activations{"--offload_activations", "True"};
  const std::vector<Row> on_gpu{
      {"bf16 mixed", {"bf16 mixed"}, bf16},
      {"tf32", {"tf32"}, {"--tf32", "True"}},
      {"tf32x3", {"tf32x3"}, {"--matmul_precision", "tf32x3"}},
      {"batch 32", {"batch 32"}, batch_32()},
      {"bf16, batch 32", {"bf16", "batch 32"}, merged(bf16, batch_32())},
      {"bf16, batch 32, checkpointing",
       {"bf16", "batch 32", "checkpointing"},
       merged(merged(bf16, batch_32()), kCheckpointing)},
      {"acc., bf16", {"accumulation", "bf16"}, merged(kSplit, bf16)},
      {"the 7th, copies at use",
       {"accumulation", "checkpointing", "fp16", "Adafactor", "copies at use"},
       at_use},
      {"the 7th, copies at use, fp16 gradients",
       {"accumulation", "checkpointing", "fp16", "Adafactor", "copies at use", "fp16 gradients"},
       merged(at_use, {"--gradient_dtype", "fp16"})},
      {"offloaded optimizer", {"offloaded optimizer"}, offloaded_optimizer},
      {"offloaded activations", {"offloaded activations"}, offloaded_activations},
      {"offloaded optimizer, batch 32, bf16",
       {"offloaded optimizer", "batch 32", "bf16"},
       merged(merged(bf16, batch_32()), offloaded_optimizer)},
      {"offloaded activations, batch 32, bf16",
       {"offloaded activations", "batch 32", "bf16"},
       merged(merged(bf16, batch_32()), offloaded_activations)},
      {"paged 8-bit AdamW", {"paged 8-bit AdamW"}, {"--optim", "paged_adamw_8bit"}},
      {"QLoRA, rank 8, bf16", {"QLoRA", "bf16"}, merged(bf16, {"--lora_r", "8", "--load_in_4bit", "True"})},
      {"the smallest",
       {"bf16 alone", "checkpointing", "update in backward", "offloads", "batch 1"},
       merged(merged(merged(batch(1), kCheckpointing),
                     {"--dtype", "bfloat16", "--optimizer_in_backward", "True", "--max_grad_norm", "0"}),
              merged(offloaded_optimizer, offloaded_activations))},
  };
  rows.insert(rows.end(), on_gpu.begin(), on_gpu.end());
  return rows;
}

// "NAME=VALUE,VALUE": the words of each value.
std::vector<Words> values_of(const std::string& sweep) {
  const size_t equals = sweep.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == sweep.size()) {
    throw_error(ErrorCode::kUsage,
                "--sweep {}: expected NAME=VALUE,VALUE,..., per_device_train_batch_size=8,16 for example",
                sweep);
  }
  const std::string name = sweep.substr(0, equals);
  const std::vector<ArgumentInfo>& table = argument_table();
  if (std::none_of(table.begin(), table.end(), [&](const ArgumentInfo& info) { return info.name == name; })) {
    throw_error(ErrorCode::kUsage, "--sweep {}: '{}' is no argument; plimsoll train --help lists them", sweep,
                name);
  }
  std::vector<Words> values;
  for (size_t at = equals + 1; at <= sweep.size();) {
    const size_t end = std::min(sweep.find(',', at), sweep.size());
    if (end == at) throw_error(ErrorCode::kUsage, "--sweep {}: an empty value", sweep);
    values.push_back({"--" + name, sweep.substr(at, end - at)});
    at = end + 1;
  }
  return values;
}

// Samples a second between the first record at a third of the steps or later and the last one; 0 where there
// are fewer than two.
double steady_samples_per_s(const std::string& path, double samples_per_step) {
  constexpr int64_t kMost = int64_t{256} << 20;
  const std::string text = read_text_file(posix_file_system(), path, kMost);
  std::vector<std::pair<double, double>> points;  // step, seconds
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const LogRecord record = parse_log_line(std::string_view(text).substr(at, end - at));
    const auto runtime = record.values.find("train_runtime");
    if (record.values.contains("loss") && runtime != record.values.end()) {
      points.emplace_back(static_cast<double>(record.step), runtime->second);
    }
    at = end + 1;
  }
  if (points.size() < 2) return 0;
  const double after = std::max(2.0, points.back().first / 3);
  const auto first =
      std::find_if(points.begin(), points.end(), [&](const auto& point) { return point.first >= after; });
  const auto& last = points.back();
  if (first == points.end() || last.second <= first->second) return 0;
  return samples_per_step * (last.first - first->first) / (last.second - first->second);
}

}  // namespace

std::vector<Experiment> document_experiments(ExperimentDevice device, const std::vector<std::string>& more) {
  const bool on_gpu = device == ExperimentDevice::kGpu;
  std::vector<Row> rows = document_rows(on_gpu ? "fp16" : "bf16");
  const size_t num_documents = rows.size();
  for (Row& row : our_rows(device)) rows.push_back(std::move(row));
  std::vector<Experiment> experiments;
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows[i];
    const bool stands_in = !on_gpu && i < num_documents && row.name.find("bf16") != std::string::npos;
    experiments.push_back(
        {.name = row.name,
         .key = fmt::format("{:02}-{}", i + 1, key_of(row.name)),
         .methods = std::move(row.methods),
         .words = merged(merged(common_words(device), row.words), more),
         .note = stands_in ? "bf16 stands for the documents' fp16, which no CPU multiplies" : ""});
  }
  return experiments;
}

std::vector<Experiment> calibration_runs(const std::vector<std::string>& more) {
  const Words all = merged(merged(common_words(ExperimentDevice::kCpu), more), {"--use_cpu", "True"});
  std::vector<Experiment> runs;
  for (const bool is_half : {false, true}) {
    if (is_half && !has_bf16_products(cpu_isa())) continue;
    const std::string name = is_half ? "calibration, bf16" : "calibration, fp32";
    const Words own{
        "--bf16", is_half ? "True" : "False", "--max_steps", "10", "--profile", "True", "--calibration",
        "off"};
    runs.push_back({.name = name, .key = key_of(name), .methods = {}, .words = merged(all, own), .note = {}});
  }
  return runs;
}

std::vector<Experiment> gpu_constant_runs(const std::vector<std::string>& more) {
  const Words small{"--config_name",      "bert-base-uncased",
                    "--dummy_seq_length", "128",
                    "--max_seq_length",   "128",
                    "--max_steps",        "6"};
  const Words all = merged(merged(common_words(ExperimentDevice::kGpu), small), more);
  std::vector<Experiment> runs;
  for (const auto& [type, fp16] : {std::pair("fp32", "False"), {"fp16", "True"}}) {
    const std::string name = fmt::format("memory beside the arena, {}", type);
    runs.push_back({.name = name,
                    .key = key_of(name),
                    .methods = {},
                    .words = merged(all, {"--fp16", fp16}),
                    .note = {}});
  }
  return runs;
}

std::vector<Experiment> sweep_experiments(const std::vector<std::string>& sweeps,
                                          const std::vector<std::string>& more) {
  constexpr size_t kMostRows = 1000;
  std::vector<Words> combinations{{}};
  for (const std::string& sweep : sweeps) {
    std::vector<Words> longer;
    for (const Words& before : combinations) {
      for (const Words& value : values_of(sweep)) longer.push_back(merged(before, value));
    }
    if (longer.size() > kMostRows) {
      throw_error(ErrorCode::kUsage, "--sweep: {} rows and more; at most {} are run", longer.size(),
                  kMostRows);
    }
    combinations = std::move(longer);
  }
  const Words common{
      "--logging_steps", "0.1", "--include_num_input_tokens_seen", "all", "--save_strategy", "no",
      "--disable_tqdm",  "True"};
  std::vector<Experiment> experiments;
  for (const Words& words : combinations) {
    std::string name;
    Words methods;
    for (size_t i = 0; i + 1 < words.size(); i += 2) {
      methods.push_back(words[i].substr(2) + "=" + words[i + 1]);
      name += (name.empty() ? "" : " ") + methods.back();
    }
    experiments.push_back(
        {.name = name,
         .key = fmt::format("{:03}-{}", experiments.size() + 1, key_of(name).substr(0, 100)),
         .methods = std::move(methods),
         .words = merged(merged(common, more), words),
         .note = {}});
  }
  return experiments;
}

ExperimentFigures read_experiment(const std::string& folder) {
  try {
    const nlohmann::json plan = read_json_object(join_path(folder, "plan.json"));
    const nlohmann::json memory = read_json_object(join_path(folder, "memory.json"));
    const nlohmann::json results = read_json_object(join_path(folder, "train_results.json"));
    const nlohmann::json& request = plan.at("request");
    const auto samples_per_step = plan.at("estimate").at("samples").get<double>();
    ExperimentFigures figures{
        .seconds = results.at("train_runtime"),
        .samples_per_s = steady_samples_per_s(join_path(folder, "log.jsonl"), samples_per_step),
        .predicted_samples_per_s = plan.at("estimate").at("samples_per_second"),
        .measured_bytes = memory.at("measured_peak_bytes"),
        .predicted_bytes = memory.at("predicted_total_bytes"),
        .arena_bytes = memory.at("arena_bytes"),
        .high_water_bytes = memory.at("arena_high_water_bytes"),
        .loss = results.at("train_loss").is_null() ? 0 : results.at("train_loss").get<double>(),
        .model = request.at("model"),
        .device = request.at("device"),
        .sequence_length = request.at("train_bucket").at("longest"),
        .evaluation = {}};
    // A run of a step or two has no steady state.
    if (figures.samples_per_s <= 0) figures.samples_per_s = results.at("train_samples_per_second");
    const std::string evaluation_path = join_path(folder, "eval_results.json");
    if (!posix_file_system().status(evaluation_path)) return figures;
    const nlohmann::json evaluation = read_json_object(evaluation_path);
    for (const auto& [name, value] : evaluation.items()) {
      if (value.is_number()) figures.evaluation[name] = value.get<double>();
    }
    return figures;
  } catch (const nlohmann::json::exception& error) {
    throw_error(ErrorCode::kBadData, "{}: a file of the run is not what this version writes: {}", folder,
                error.what());
  }
}

ExperimentReport make_experiment_report(const std::vector<ExperimentRow>& rows) {
  PLIMSOLL_CHECK(!rows.empty(), "a table without rows");
  return {.table = experiment_table(rows),
          .summary = experiment_summary(rows),
          .json = experiment_json(rows),
          .csv = experiment_csv(rows),
          .svg = experiment_picture(rows).svg()};
}

bool write_experiment_png(const std::vector<ExperimentRow>& rows, const std::string& path) {
  PLIMSOLL_CHECK(!rows.empty(), "a plot without rows");
  return experiment_picture(rows).write_png(path);
}

}  // namespace plimsoll
