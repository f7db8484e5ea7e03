#include "plimsoll/fit.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/command.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kUsage =
    "usage: plimsoll fit --memory 16GiB --device l4 [--effective_batch_size 64] arguments of train\n"
    "       plimsoll fit --device all [--prices FILE] [--epoch_samples N] arguments of train\n"
    "\n"
    "  --memory SIZE             memory for a run: 16GiB, 500MB (default: the memory of the device)\n"
    "  --device NAME             cpu, a card such as l4, several (l4,t4), or all: then cards are ranked\n"
    "  --effective_batch_size N  sequences per optimizer step, split into micro-batches in the fastest way\n"
    "  --all_methods             also methods that change the result of training, such as SGD and LoRA\n"
    "  --prices FILE             lines 'l4,0.71': rank cards by the cost of an epoch\n"
    "  --epoch_samples N         sequences per epoch (default: 100000)\n"
    "  --json                    print JSON for programs\n"
    "\n"
    "Needs no GPU, no weights and no data. Every answer was planned, as by `plan` and `train --dry_run`.";

struct FitWords {
  FitOptions options;
  bool json = false;
  bool help = false;
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

FitWords read_words(const std::vector<std::string>& words) {
  FitWords read;
  std::vector<std::string> rest;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const auto value = [&] {
      if (name.size() < words[i].size()) return words[i].substr(name.size() + 1);
      if (i + 1 == words.size()) throw Error(ErrorCode::kUsage, "fit: " + name + " needs a value");
      return words[++i];
    };
    if (name == "--memory") {
      rest.insert(rest.end(), {"--memory_limit", value()});
    } else if (name == "--effective_batch_size") {
      read.options.effective_batch_size = whole_number(name, value());
    } else if (name == "--epoch_samples") {
      read.options.epoch_samples = whole_number(name, value());
    } else if (name == "--prices") {
      read.options.prices = read_prices(value());
    } else if (name == "--all_methods") {
      read.options.with_other_paths = true;
    } else if (words[i] == "--json") {
      read.json = true;
    } else if (name == "--device") {
      const std::string device = value();
      if (device == "all" || device.find(',') != std::string::npos) {
        read.options.devices = split(device);
      } else {
        rest.insert(rest.end(), {"--device", device});
      }
    } else {
      rest.push_back(words[i]);
    }
  }
  const ParseResult parsed = parse_arguments(rest);
  read.help = parsed.help;
  if (!read.help) say_all(parsed.warnings, parsed.notes);
  read.options.arguments = parsed.arguments;
  return read;
}

}  // namespace

int run_fit(const std::vector<std::string>& words) {
  if (words.empty()) {
    print(kUsage);
    return static_cast<int>(ErrorCode::kUsage);
  }
  const FitWords read = read_words(words);
  if (read.help) {
    print(kUsage);
    return 0;
  }
  if (!read.options.prices.empty() && read.options.devices.empty())
    throw Error(ErrorCode::kUsage, "fit: --prices compares cards: give --device all, or several (l4,t4)");
  const FitReport report = fit_run(read.options, program_environment());
  print(read.json ? report.json : report.table);
  return 0;
}

}  // namespace plimsoll::cli
