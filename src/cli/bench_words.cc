#include "cli/bench_words.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "cli/child.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {

const char* const kBenchUsage =
    "usage: plimsoll bench --experiments [--output_dir DIR] [--use_cpu] [--peer] [arguments of train]\n"
    "       plimsoll bench --sweep NAME=VALUE,VALUE [--sweep ...] [--output_dir DIR] arguments of train\n"
    "       plimsoll bench --calibrate [--num_threads N] [--device cuda:N]\n"
    "\n"
    "  --experiments       the experiments of Hugging Face's page on one GPU, then more: every method\n"
    "                      alone and combined, one process per run, with memory and speed; on a CPU with a\n"
    "                      smaller model, in minutes\n"
    "  --sweep NAME=A,B    a grid of any arguments of train; --do_eval with data adds the metrics. Values\n"
    "                      with commas have ';' between them:\n"
    "                      --sweep 'lora_target_modules=all-linear;query,value'\n"
    "  --calibrate         time ops of a training on this CPU, for the predictions of plan, fit and bench\n"
    "                      on it with as many threads; --experiments does so too, for its own rows;\n"
    "                      with --device cuda:N, the memory of processes on that GPU outside their arenas\n"
    "  --only TEXT,TEXT    the first row and the rows whose name contains one of the texts; separate texts\n"
    "                      that contain commas with ';'\n"
    "  --repeats N         runs per row, at least (default: 3, and 1 for a sweep); with three or more, rows\n"
    "                      whose speeds differ by more than 5 % get two more, and the table has the spread\n"
    "  --rerun TEXT,TEXT   discard the results of the rows whose name contains one of the texts, and run\n"
    "                      them again\n"
    "  --peer              each row also with Hugging Face's Trainer, if torch and transformers are\n"
    "                      installed\n"
    "  --peer_python FILE  the interpreter for it (default: python3)\n"
    "  --peer_script FILE  the script for it (default: experiments_peer.py of this program)\n"
    "  --output_dir DIR    tables, plots and the output of each run (default: experiments); a stopped bench\n"
    "                      continues there when the same command is run again\n"
    "\n"
    "Every other argument is passed to each run and overrides the arguments of the row.";

namespace {

namespace fs = std::filesystem;

// Splits a text at semicolons if it contains any, otherwise at commas. Blanks around the parts are ignored.
std::vector<std::string> split(const std::string& text) {
  const char separator = text.find(';') != std::string::npos ? ';' : ',';
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    std::string part = text.substr(at, end - at);
    part.erase(0, std::min(part.find_first_not_of(' '), part.size()));
    part.erase(part.find_last_not_of(' ') + 1);
    if (!part.empty()) parts.push_back(std::move(part));
    at = end + 1;
  }
  return parts;
}

// Three runs are the fewest that have a spread.
constexpr int kRepeats = 3;
constexpr int kMostRepeats = 100;

int repeats_of(const std::string& text) {
  int repeats = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), repeats);
  if (error == std::errc() && end == text.data() + text.size() && repeats >= 1 && repeats <= kMostRepeats)
    return repeats;
  throw Error(ErrorCode::kUsage, "bench: --repeats " + text + ": expected a number of runs from 1 to " +
                                     std::to_string(kMostRepeats) + ", 3 for example");
}

// Returns the path of the script of this program: installed next to it, in the source tree in which it was
// built, or in the current source tree.
std::string own_peer_script() {
  const fs::path program = fs::path(own_program()).parent_path();
  const std::vector<fs::path> places{program / "../share/plimsoll/experiments_peer.py",
                                     program / "../bench/experiments_peer.py", "bench/experiments_peer.py"};
  std::error_code ignored;
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place, ignored)) return place.lexically_normal().string();
  }
  std::string said = "bench: --peer: experiments_peer.py was not found; searched";
  for (const fs::path& place : places) said += "\n  " + place.lexically_normal().string();
  throw Error(ErrorCode::kUsage, said + "\ngive its path with --peer_script");
}

}  // namespace

BenchWords read_bench_words(const std::vector<std::string>& words) {
  BenchWords read;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const auto value = [&] {
      if (name.size() < words[i].size()) return words[i].substr(name.size() + 1);
      if (i + 1 == words.size()) throw Error(ErrorCode::kUsage, "bench: " + name + " needs a value");
      return words[++i];
    };
    if (name == "--experiments") {
      read.experiments = true;
    } else if (name == "--calibrate") {
      read.calibrate = true;
    } else if (name == "--peer") {
      read.peer = true;
    } else if (name == "--output_dir") {
      read.output_dir = value();
    } else if (name == "--peer_python") {
      read.peer_python = value();
    } else if (name == "--peer_script") {
      read.peer_script = value();
    } else if (name == "--sweep") {
      read.sweeps.push_back(value());
    } else if (name == "--only") {
      read.only = split(value());
    } else if (name == "--rerun") {
      read.rerun = split(value());
    } else if (name == "--repeats") {
      read.repeats = repeats_of(value());
    } else {
      read.more.push_back(words[i]);
    }
  }
  if ((read.experiments ? 1 : 0) + (read.sweeps.empty() ? 0 : 1) + (read.calibrate ? 1 : 0) != 1) {
    throw Error(ErrorCode::kUsage,
                "bench: give --experiments, or --sweep NAME=VALUE,VALUE once or more, or --calibrate");
  }
  // The rows of a sweep are often long, and compared by their metrics.
  if (read.repeats == 0) read.repeats = read.experiments ? kRepeats : 1;
  if (!read.peer) return read;
  if (read.peer_script.empty()) read.peer_script = own_peer_script();
  std::error_code ignored;
  if (!fs::exists(read.peer_script, ignored)) {
    throw Error(ErrorCode::kUsage,
                "bench: --peer_script " + read.peer_script +
                    ": the file does not exist; omit the option to use the program's own script");
  }
  return read;
}

bool is_named(const Experiment& experiment, const std::vector<std::string>& texts) {
  return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
    return experiment.name.find(text) != std::string::npos;
  });
}

void require_names(const std::vector<Experiment>& all, const std::vector<std::string>& texts,
                   const std::string& option) {
  for (const std::string& text : texts) {
    if (std::any_of(all.begin(), all.end(), [&](const Experiment& one) { return is_named(one, {text}); }))
      continue;
    constexpr size_t kShown = 60;
    std::string said = "bench: " + option + " " + text + ": no row has a name that contains it; the rows are";
    for (size_t i = 0; i < std::min(all.size(), kShown); ++i) said += "\n  " + all[i].name;
    if (all.size() > kShown) said += "\n  and " + std::to_string(all.size() - kShown) + " more";
    throw Error(ErrorCode::kUsage, said);
  }
}

std::vector<Experiment> only_experiments(const std::vector<Experiment>& all,
                                         const std::vector<std::string>& texts) {
  if (texts.empty()) return all;
  require_names(all, texts, "--only");
  std::vector<Experiment> chosen;
  for (const Experiment& experiment : all) {
    if (chosen.empty() || is_named(experiment, texts)) chosen.push_back(experiment);
  }
  return chosen;
}

}  // namespace plimsoll::cli
