#include "cli/bench_words.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "cli/child.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {

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

// The default number of runs per row. The spread of the speeds of a row can only be computed from three runs or more.
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

// Converts a text such as "256MiB" to a number of bytes.
int64_t size_of(const std::string& text) {
  constexpr std::pair<const char*, int64_t> kUnits[] = {
      {"KiB", int64_t{1} << 10}, {"MiB", int64_t{1} << 20}, {"GiB", int64_t{1} << 30}};
  constexpr int64_t kMost = int64_t{4} << 30;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  for (const auto& [name, bytes] : kUnits) {
    if (error == std::errc() && unit == name && number >= 1 && number <= kMost / bytes) return number * bytes;
  }
  throw Error(ErrorCode::kUsage,
              "bench: --links " + text + ": expected a size from 1KiB to 4GiB, 256MiB for example");
}

double seconds_of(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size() && seconds >= 0.01 && seconds <= 3600)
    return seconds;
  throw Error(ErrorCode::kUsage,
              "bench: --seconds " + text + ": expected a number of seconds from 0.01 to 3600, 2 for example");
}

// Returns the path of Plimsoll's own script for --peer, which runs Hugging Face's Trainer. It is searched next to the
// installed program, in the source tree in which the program was built, and in the current folder.
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

// Refuses --dry_run: a dry run measures nothing, so the table would contain neither speed nor memory.
void refuse_dry_run(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const bool is_off = i + 1 < words.size() && (words[i + 1] == "False" || words[i + 1] == "false");
    const bool is_on =
        (words[i] == "--dry_run" && !is_off) || words[i] == "--dry_run=True" || words[i] == "--dry_run=true";
    if (is_on) {
      throw Error(ErrorCode::kUsage,
                  "bench: --dry_run: bench measures runs, and a dry run does not train; omit it, or see the "
                  "plan of a "
                  "run with plimsoll plan");
    }
  }
}

}  // namespace

BenchWords read_bench_words(const CommandWords& words) {
  BenchWords read;
  read.experiments = words.has("experiments");
  read.parallel = words.has("parallel");
  read.calibrate = words.has("calibrate");
  read.peer = words.has("peer");
  read.output_dir = words.value("output_dir", read.output_dir);
  read.peer_python = words.value("peer_python", read.peer_python);
  read.peer_script = words.value("peer_script", read.peer_script);
  if (words.has("sweep")) read.sweeps = words.values.at("sweep");
  read.only = split(words.value("only"));
  read.rerun = split(words.value("rerun"));
  read.links = words.has("links");
  read.json = words.has("json");
  if (const std::string size = words.value("links"); !size.empty())
    read.links_options.largest_bytes = size_of(size);
  if (words.has("seconds")) {
    if (!read.links)
      throw Error(ErrorCode::kUsage,
                  "bench: --seconds has no effect without --links; omit it, or give --links");
    read.links_options.seconds_per_size = seconds_of(words.value("seconds"));
  }
  read.disk_folder = words.value("disk");
  if (words.has("repeats")) read.repeats = repeats_of(words.value("repeats"));
  read.more = words.rest;
  if ((read.experiments ? 1 : 0) + (read.parallel ? 1 : 0) + (read.sweeps.empty() ? 0 : 1) +
          (read.calibrate ? 1 : 0) + (read.links ? 1 : 0) + (words.has("disk") ? 1 : 0) !=
      1) {
    throw Error(
        ErrorCode::kUsage,
        "bench: give --experiments, or --parallel, or --sweep NAME=VALUE,VALUE once or more, or --calibrate, "
        "or --links, or --disk FOLDER");
  }
  if (words.has("disk") && !read.more.empty()) {
    throw Error(ErrorCode::kUsage,
                "bench: --disk only measures the disk, so " + read.more.front() + " has no effect; omit it");
  }
  refuse_dry_run(read.more);
  // By default each experiment of a sweep runs once, because such runs are often long and are compared by their
  // metrics, not by their speed.
  if (read.repeats == 0) read.repeats = read.experiments || read.parallel ? kRepeats : 1;
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

std::vector<std::string> device_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i].substr(0, arguments[i].find('='));
    std::replace(name.begin(), name.end(), '-', '_');
    if (name != "__use_cpu" && name != "__no_use_cpu" && name != "__device") continue;
    words.push_back(arguments[i]);
    const bool has_value = arguments[i].find('=') != std::string::npos;
    if (!has_value && i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"))
      words.push_back(arguments[i + 1]);
  }
  return words;
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
    std::string said = "bench: ";
    said += option;
    said += " ";
    said += text;
    said += ": no experiment has a name that contains it; the experiments are";
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
