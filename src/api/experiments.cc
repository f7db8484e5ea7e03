// Defines the runs of the table of experiments (`plimsoll bench`), of a sweep and of a calibration.
#include "plimsoll/experiments.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/check.h"
#include "device/cpu/cpu_features.h"
#include "hardware/gpu_target.h"
#include "plimsoll/arguments.h"

namespace plimsoll {
namespace {

using Words = std::vector<std::string>;

// One command-line option with its values.
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

// Returns the options of both lists. If an option is in both, it has its position in `words` and its value in `more`.
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

// Converts the name of a row to a name for its folder: each sequence of characters other than letters and digits
// becomes one '-'.
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

// Number of steps of a row on a GPU. The speed is measured from the first log record after a third of them to the end
// (steady_samples_per_s()): over 30 steps with a batch of 4, and over 18 with a batch of 32, whose steps take longer.
constexpr const char* kGpuSteps = "50";
constexpr const char* kGpuStepsOfLargeBatch = "30";
constexpr const char* kAllSamples = "-1";

// Returns the arguments of all rows: random token ids, as in Hugging Face's documents, no checkpoints, and ten log
// records per run, so that the steady speed can be computed. The learning rate is small so that no optimizer
// diverges on random labels.
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

// A row of the table of experiments. `methods` names the methods that the row uses, `words` are its arguments of
// `plimsoll train`. The summary of the table mentions only rows with a single method.
struct Row {
  std::string name;
  Words methods;
  Words words;
};

const Words kSplit{"--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "4"};
const Words kCheckpointing{"--gradient_checkpointing", "True"};

// Returns the nine rows of Hugging Face's page on training on one GPU, in the order of the page. `half` is the 16-bit type: fp16 as on
// the page, or bf16 on a CPU.
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

const Words kUpdateInBackward{"--optimizer_in_backward", "True", "--max_grad_norm", "0"};

// Returns further rows: runs with a single method, other batch sizes and combinations of methods. The last rows exist only on a GPU.
std::vector<Row> our_rows(ExperimentDevice device) {
  const Words bf16{"--bf16", "True"};
  std::vector<Row> rows{
      {"gradient checkpointing", {"gradient checkpointing"}, kCheckpointing},
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
      {"update in the backward pass", {"update in the backward pass"}, kUpdateInBackward},
      {"weights in bf16 alone", {"weights in bf16 alone"}, {"--dtype", "bfloat16"}},
      {"LoRA, rank 8", {"LoRA, rank 8"}, {"--lora_r", "8"}},
      {"DataLoader, 4 workers",
       {"DataLoader, 4 workers"},
       {"--dataloader_num_workers", "4", "--dataloader_prefetch_factor", "4"}},
      {"batch 1", {"batch 1"}, batch(1)},
      {"batch 8", {"batch 8"}, batch(8)},
      {"LoRA, rank 8, base in 8 bits",
       {"LoRA, rank 8, base in 8 bits"},
       {"--lora_r", "8", "--load_in_8bit", "True"}},
      {"the smallest in fp32, nothing offloaded",
       {"checkpointing", "update in backward", "Adafactor", "batch 1"},
       merged(merged(merged(batch(1), kCheckpointing), kUpdateInBackward), {"--optim", "adafactor"})}};
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
       merged(merged(merged(batch(1), kCheckpointing), merged({"--dtype", "bfloat16"}, kUpdateInBackward)),
              merged(offloaded_optimizer, offloaded_activations))},
      {"the smallest, exact masters",
       {"bf16", "checkpointing", "update in backward", "offloads", "batch 1", "small workspace"},
       merged(merged(merged(batch(1), kCheckpointing), merged(bf16, kUpdateInBackward)),
              merged(merged(offloaded_optimizer, offloaded_activations), {"--matmul_workspace", "4MiB"}))},
      {"acc., fp16", {"accumulation", "fp16"}, merged(kSplit, {"--fp16", "True"})},
      {"bf16, batch 32, selective recompute",
       {"bf16", "batch 32", "selective recompute"},
       merged(merged(bf16, batch_32()), {"--recompute", "selective"})},
      {"LoRA, rank 8, base in 8 bits, bf16",
       {"LoRA", "base in 8 bits", "bf16"},
       merged(bf16, {"--lora_r", "8", "--load_in_8bit", "True"})},
      {"update in backward, offloaded optimizer",
       {"update in backward", "offloaded optimizer"},
       merged(kUpdateInBackward, offloaded_optimizer)},
  };
  rows.insert(rows.end(), on_gpu.begin(), on_gpu.end());
  return rows;
}

// Splits values at ';' if there is one, otherwise at ','. Errors: kUsage for an empty value.
Words split_values(std::string_view values, std::string_view sweep) {
  const char separator = values.find(';') != std::string_view::npos ? ';' : ',';
  Words parts;
  for (size_t at = 0; at <= values.size();) {
    const size_t end = std::min(values.find(separator, at), values.size());
    if (end == at)
      throw_error(ErrorCode::kUsage, "--sweep {}: a value is empty; write the value or remove a comma",
                  sweep);
    parts.emplace_back(values.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Parses a sweep "NAME=VALUE,VALUE". Returns for each value the arguments that set it: {"--NAME", "VALUE"}.
std::vector<Words> values_of(const std::string& sweep) {
  const size_t equals = sweep.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == sweep.size()) {
    throw_error(ErrorCode::kUsage,
                "--sweep {}: expected NAME=VALUE,VALUE,..., per_device_train_batch_size=8,16 for example",
                sweep);
  }
  const std::string name = sweep.substr(0, equals);
  const std::vector<ArgumentInfo>& table = argument_table();
  const auto info = std::find_if(table.begin(), table.end(),
                                 [&](const ArgumentInfo& argument) { return argument.name == name; });
  if (info == table.end()) {
    throw_error(ErrorCode::kUsage,
                "--sweep {}: '{}' is not an argument; plimsoll train --help lists the arguments", sweep,
                name);
  }
  const std::string_view text = std::string_view(sweep).substr(equals + 1);
  // If the values of a setting are lists, a comma could separate two values of the sweep or two elements of one list.
  // The user must therefore separate the values of the sweep by ';'.
  const bool has_commas_of_its_own = info->type == "list" || info->type == "key=value";
  if (has_commas_of_its_own && text.find(',') != std::string_view::npos &&
      text.find(';') == std::string_view::npos) {
    throw_error(ErrorCode::kUsage,
                "--sweep {0}: a value of --{1} is a {2} and contains commas; put ';' between the values of "
                "the sweep, in quotes: --sweep '{1}=VALUE;VALUE,WITH,COMMAS'. For the same value in every "
                "row, give --{1} itself",
                sweep, name, info->type == "list" ? "list" : "list of key=value");
  }
  std::vector<Words> values;
  for (const std::string& value : split_values(text, sweep)) values.push_back({"--" + name, value});
  return values;
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
    experiments.push_back({.name = row.name,
                           .key = fmt::format("{:02}-{}", i + 1, key_of(row.name)),
                           .methods = std::move(row.methods),
                           .words = merged(merged(common_words(device), row.words), more),
                           .note = stands_in ? "bf16 replaces the fp16 of Hugging Face's page, because "
                                               "Plimsoll does not compute in fp16 on a CPU"
                                             : ""});
  }
  return experiments;
}

std::vector<Experiment> parallel_experiments(ExperimentDevice device, int64_t num_ranks,
                                             const std::vector<std::string>& more) {
  const bool on_gpu = device == ExperimentDevice::kGpu;
  PLIMSOLL_CHECK(num_ranks >= 2, "experiments with several ranks need at least 2 ranks, but got {}",
                 num_ranks);
  // The batch size and the number of steps are those of Hugging Face's page. Random ids replace its texts.
  const int64_t num_samples = on_gpu ? 200 * 4 * num_ranks : 16 * 4 * num_ranks;
  const Words gpt2{"--config_name",      "gpt2", "--problem_type",   "causal_lm",
                   "--dummy_seq_length", "1024", "--max_seq_length", "1024"};
  const Words small{"--dummy_seq_length", "64", "--max_seq_length", "64"};
  const Words common =
      merged(common_words(device),
             merged(on_gpu ? gpt2 : small, {"--dummy_num_samples", std::to_string(num_samples), "--max_steps",
                                            kAllSamples, "--nproc_per_node", std::to_string(num_ranks)}));
  const Words ddp{"--zero_stage", "0"};
  const Words nccl{"--zero_stage", "0", "--ddp_backend", "nccl"};
  struct ParallelRow {
    std::string name;
    Words words;
    Words environment;
  };
  std::vector<ParallelRow> rows{{"DDP", ddp, {}}, {"DataParallel", {"--data_parallel_mode", "dp"}, {}}};
  if (on_gpu) {
    rows.push_back({"DDP without NVLink", nccl, {"NCCL_P2P_DISABLE=1"}});
    rows.push_back({"DDP through NCCL", nccl, {}});
  }
  for (const char* stage : {"1", "2", "3"})
    rows.push_back({fmt::format("ZeRO stage {}", stage), {"--zero_stage", stage}, {}});
  std::vector<Experiment> experiments;
  for (const ParallelRow& row : rows) {
    Words methods;
    if (!experiments.empty()) methods.push_back(row.name);
    experiments.push_back({.name = fmt::format("{} x {}", num_ranks, row.name),
                           .key = fmt::format("{:02}-{}", experiments.size() + 1, key_of(row.name)),
                           .methods = std::move(methods),
                           .words = merged(merged(common, row.words), more),
                           .environment = row.environment,
                           .note = {}});
  }
  return experiments;
}

void require_device_that_runs(const Words& more) {
  for (const Option& option : options_of(more)) {
    if (option.name != "--device" || option.words.empty()) continue;
    const std::string& last = option.words.back();
    const std::string card = last.substr(last.starts_with("--device=") ? 9 : 0);
    if (!find_gpu_target(card)) continue;
    throw_error(
        ErrorCode::kUsage,
        "--device {0}: plans can be made for this card, but nothing can run on it here; plimsoll plan "
        "--experiments --device {0} prints the predictions; to run on a GPU of this machine, give cuda:N",
        card);
  }
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
    const std::string name = fmt::format("memory outside the arena, {}", type);
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
      throw_error(ErrorCode::kUsage,
                  "--sweep: the values give {} rows or more, but at most {} are run; give fewer values",
                  longer.size(), kMostRows);
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

}  // namespace plimsoll
