#include "plimsoll/fit.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/command.h"
#include "cli/download_progress.h"
#include "plimsoll/fit_ranks.h"

namespace plimsoll::cli {
namespace {

struct FitWords {
  FitOptions options;
  bool json = false;
};

int64_t whole_number(const std::string& name, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1)
    throw Error(ErrorCode::kUsage, "fit: " + name + " " + text + ": expected an integer of at least 1");
  return value;
}

std::vector<CardPrice> read_prices(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error(ErrorCode::kUsage,
                "fit: --prices " + path + ": it is a folder; give a file with lines such as 'l4,0.71'");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ErrorCode::kUsage, "fit: --prices " + path + ": cannot open the file: " +
                                       std::strerror(errno) + "; check its name and permissions");
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<CardPrice> prices = parse_prices(text, path);
  if (prices.empty())
    throw Error(ErrorCode::kUsage,
                "fit: --prices " + path + ": the file contains no price; write lines such as 'l4,0.71'");
  return prices;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Checks the value of --memory, which `fit` accepts instead of --memory_limit. The error message
// names --memory, the option that the user gave.
void check_memory(const std::string& memory) {
  try {
    const std::vector<std::string> words{"--memory_limit", memory};
    parse_arguments(words);
  } catch (const Error& error) {
    std::string message = error.what();
    const std::string setting = "--memory_limit";
    if (message.starts_with(setting)) message.replace(0, setting.size(), "fit: --memory");
    throw Error(error.code(), message);
  }
}

FitWords read_words(const CommandWords& words) {
  FitWords read;
  std::vector<std::string> rest = words.rest;
  const auto number = [&](const std::string& name) -> int64_t {
    return whole_number("--" + name, words.value(name));
  };
  if (words.has("memory")) check_memory(words.value("memory"));
  if (words.has("memory")) rest.insert(rest.end(), {"--memory_limit", words.value("memory")});
  if (words.has("effective_batch_size")) read.options.effective_batch_size = number("effective_batch_size");
  if (words.has("epoch_samples")) read.options.epoch_samples = number("epoch_samples");
  if (words.has("prices")) read.options.prices = read_prices(words.value("prices"));
  read.options.with_other_paths = words.has("all_methods");
  read.json = words.has("json");
  if (words.has("device")) {
    const std::string device = words.value("device");
    if (device == "all" || device.find(',') != std::string::npos) {
      read.options.devices = split(device);
      for (const std::string& name : read.options.devices) {
        if (!name.empty()) continue;
        throw Error(ErrorCode::kUsage,
                    "fit: --device " + device + ": a name is empty; write the name or remove a comma");
      }
    } else {
      rest.insert(rest.end(), {"--device", device});
    }
  }
  const ParseResult parsed = parse_arguments(rest);
  set_verbosity(parsed.arguments);
  say_all(parsed.warnings, parsed.notes);
  read.options.arguments = parsed.arguments;
  return read;
}

// Refuses the settings that `fit --gpus` chooses itself, whether they are on the command line or in a configuration of
// DeepSpeed or another program.
void refuse_searched_settings(const ParseResult& parsed) {
  const auto refuse = [&](const std::string& name, bool is_set, const std::string& what) {
    if (is_set || parsed.explicitly_set.contains(name))
      throw Error(ErrorCode::kUsage, "fit: --" + name + ": fit --gpus " + what + "; omit it");
  };
  const Arguments& asked = parsed.arguments;
  refuse("tp_size", asked.tp_size > 1, "tries all values of it");
  refuse("sequence_parallel", asked.sequence_parallel, "tries it if a batch does not fit otherwise");
  refuse("cp_size", asked.cp_size > 1, "tries it if no sequence fits otherwise");
  refuse("pp_size", asked.pp_size > 1, "tries all values of it");
  refuse("zero_stage", asked.zero_stage.value_or(0) > 0, "tries all values of it");
  refuse("nnodes", asked.nnodes > 1, "computes the number of machines from --gpus and --nproc_per_node");
  const std::string chooses = "chooses what is recomputed within --memory";
  refuse("recompute_budget", asked.recompute_budget.has_value(), chooses);
  refuse("recompute selective", asked.recompute == "selective", chooses);
}

int fit_gpus(const CommandWords& words) {
  for (const char* name : {"prices", "epoch_samples", "all_methods"}) {
    if (words.has(name))
      throw Error(ErrorCode::kUsage, std::string("fit: --") + name + " has no effect with --gpus; omit it");
  }
  RankFitOptions options;
  options.gpus = whole_number("--gpus", words.value("gpus"));
  options.links = words.value("links");
  if (words.has("effective_batch_size"))
    options.effective_batch_size =
        whole_number("--effective_batch_size", words.value("effective_batch_size"));
  std::vector<std::string> rest = words.rest;
  if (words.has("memory")) {
    check_memory(words.value("memory"));
    rest.insert(rest.end(), {"--memory_limit", words.value("memory")});
  }
  if (words.has("device")) {
    const std::string device = words.value("device");
    if (device == "all" || device.find(',') != std::string::npos)
      throw Error(ErrorCode::kUsage, "fit: --gpus searches for one card, but --device " + device +
                                         " names several; give one, such as --device h100");
    rest.insert(rest.end(), {"--device", device});
  }
  const ParseResult parsed = parse_arguments(rest);
  set_verbosity(parsed.arguments);
  say_all(parsed.warnings, parsed.notes);
  refuse_searched_settings(parsed);
  options.arguments = parsed.arguments;
  if (parsed.explicitly_set.contains("nproc_per_node"))
    options.gpus_per_machine = parsed.arguments.nproc_per_node;
  download_models(options.arguments, RunCommand::kPlan);
  const RankFitReport report = fit_ranks(options, program_environment());
  say_all(report.warnings, report.notes);
  print(words.has("json") ? report.json : report.table);
  return 0;
}

}  // namespace

int run_fit(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("fit");
  const CommandWords sorted = read_command_words(command, words);
  if (words.empty() || sorted.help) {
    print(command_screen(command, sorted.help_topic));
    return sorted.help ? 0 : static_cast<int>(ErrorCode::kUsage);
  }
  if (sorted.has("gpus")) return fit_gpus(sorted);
  if (sorted.has("links"))
    throw Error(ErrorCode::kUsage, "fit: --links has no effect without --gpus; omit it, or give --gpus 64");
  const FitWords read = read_words(sorted);
  if (!read.options.prices.empty() && read.options.devices.empty())
    throw Error(ErrorCode::kUsage, "fit: --prices compares cards: give --device all, or several (l4,t4)");
  download_models(read.options.arguments, RunCommand::kPlan);
  const FitReport report = fit_run(read.options, program_environment());
  say_all(report.warnings, report.notes);
  print(read.json ? report.json : report.table);
  return 0;
}

}  // namespace plimsoll::cli
