#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "cli/bench_links.h"
#include "cli/bench_words.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/command_json.h"
#include "cli/interrupt.h"
#include "cli/launch.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_events.h"
#include "plimsoll/disk.h"
#include "plimsoll/experiments.h"
#include "plimsoll/report.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Writes the text to a temporary file and renames it, so that a file with the final name never contains only a part of the text.
void write_file(const std::string& path, const std::string& text) {
  const std::string unfinished = path + ".tmp";
  std::ofstream file(unfinished, std::ios::binary);
  file << text;
  if (!file.flush())
    throw Error(ErrorCode::kDevice, path + ": cannot write the file; check its permissions and the disk");
  fs::rename(unfinished, path);
}

// Returns true if the exit code is an ErrorCode, which it is not if a signal has ended the process.
bool is_error_code(int code) {
  return code >= static_cast<int>(ErrorCode::kInternal) && code <= static_cast<int>(ErrorCode::kDevice);
}

volatile std::sig_atomic_t stop_signal = 0;
void on_stop(int signal) {
  stop_signal = signal;
}

class Bench {
 public:
  explicit Bench(BenchWords words) : words_(std::move(words)) {}

  int run() {
    require_device_that_runs(words_.more);
    fs::create_directories(words_.output_dir + "/rows");
    on_interrupt(on_stop);
    std::signal(SIGTERM, on_stop);
    if (words_.calibrate)
      return (is_for_gpu() ? calibrate_gpu() : calibrate()) ? 0 : static_cast<int>(ErrorCode::kInterrupted);
    if (words_.experiments || words_.parallel || is_for_gpu()) device_ = device();
    if (words_.parallel && num_ranks_ < 2) {
      throw Error(
          ErrorCode::kUsage,
          "bench: --parallel compares how several processes train together, and these arguments start "
          "one; give --nproc_per_node 2 or more, with --use_cpu for CPUs");
    }
    // Reports errors in the arguments before the first run starts.
    chosen_experiments();
    if (words_.peer && !ask_peer()) return static_cast<int>(ErrorCode::kInterrupted);
    if (device_ == ExperimentDevice::kCpu && words_.experiments && !calibrate())
      return static_cast<int>(ErrorCode::kInterrupted);
    for (const Experiment& experiment : chosen_experiments())
      rows_.push_back({.experiment = experiment, .figures = {}, .refused = {}, .peer = {}});
    for (size_t i = 0; i < rows_.size(); ++i) take_kept(i);
    // Every experiment (a row of the table) runs once before any experiment runs again. A disturbance of the machine
    // that lasts some time then affects at most one run of each experiment.
    for (int round = 0; round < most_rounds(); ++round) {
      for (size_t i = 0; i < rows_.size(); ++i) {
        if (needs_run(rows_[i], round)) run_row(i, round);
        if (stop_signal != 0) {
          say("stopped; run the same command again to continue with row " + std::to_string(i + 1));
          return static_cast<int>(ErrorCode::kInterrupted);
        }
      }
    }
    report();
    if (failed_rows_ > 0) {
      say_warning(
          std::to_string(failed_rows_) + (failed_rows_ == 1 ? " row was" : " rows were") +
          " neither completed nor refused: the table states how each ended, and output.txt in its folder "
          "contains what it printed; run the same command again to repeat them");
      return static_cast<int>(failure_);
    }
    const bool any = std::any_of(rows_.begin(), rows_.end(),
                                 [](const ExperimentRow& row) { return row.figures.has_value(); });
    return any ? 0 : static_cast<int>(ErrorCode::kUsage);
  }

 private:
  // Starts a child process to find out if the measured runs use a GPU. The process of `bench` itself must never open a GPU,
  // because the memory of its CUDA context would be counted as memory of every measured run.
  ExperimentDevice device() {
    std::vector<std::string> words{own_program(),   "plan",
                                   "--config_name", "MiniLM-L6-H384-uncased",
                                   "--json",        words_.output_dir + "/device.json"};
    for (const std::string& word : device_arguments(words_.more)) words.push_back(word);
    num_ranks_ = words_.parallel ? parse_arguments(words_.more).arguments.nproc_per_node : 1;
    if (num_ranks_ > 1) words.insert(words.end(), {"--nproc_per_node", std::to_string(num_ranks_)});
    Child child(words, words_.output_dir + "/device.log");
    while (child.is_running(1000)) {
    }
    if (child.exit_code() != 0) fail_as(child, "");
    const std::string plan = read_file(words_.output_dir + "/device.json");
    const bool on_gpu = plan.find("\"gpu\": null") == std::string::npos;
    // Without --nproc_per_node, a run with --parallel has one rank per visible GPU. The plan contains that number.
    constexpr std::string_view kRanks = "\"ranks\": ";
    if (const size_t at = plan.find(kRanks); words_.parallel && at != std::string::npos)
      num_ranks_ = std::atoll(plan.c_str() + at + kRanks.size());
    fs::remove(words_.output_dir + "/device.json");
    fs::remove(words_.output_dir + "/device.log");
    return on_gpu ? ExperimentDevice::kGpu : ExperimentDevice::kCpu;
  }

  std::vector<Experiment> chosen_experiments() const {
    const std::vector<Experiment> all = words_.experiments ? document_experiments(device_, words_.more)
                                        : words_.parallel
                                            ? parallel_experiments(device_, num_ranks_, words_.more)
                                            : sweep_experiments(words_.sweeps, words_.more);
    require_names(all, words_.rerun, "--rerun");
    return only_experiments(all, words_.only);
  }

  // Checks once, before the first run, that Hugging Face's Trainer, with which --peer compares, can run. Returns false after a signal.
  bool ask_peer() const {
    const std::string log = words_.output_dir + "/peer_check.txt";
    Child child({words_.peer_python, words_.peer_script, "--check"}, log);
    if (!wait_for(child, "checking if Hugging Face's Trainer can run")) return false;
    if (child.exit_code() == 0) {
      fs::remove(log);
      return true;
    }
    throw Error(
        ErrorCode::kUsage,
        "bench: --peer: " + peer_fault(child) +
            "; install torch and transformers, give another interpreter with --peer_python, or omit --peer");
  }

  // Returns the reason why the process of --peer, which runs Hugging Face's Trainer, has failed.
  std::string peer_fault(const Child& child) const {
    if (child.exit_code() == 127) return words_.peer_python + " cannot be run";
    const std::string said = child.last_line();
    return words_.peer_python + ": " +
           (said.empty() ? "ended with exit code " + std::to_string(child.exit_code()) : said);
  }

  // Measures the calibration, from which speeds are predicted, right before the experiments, so that the
  // predictions match the current state of this machine. With --calibrate the result is kept for other
  // commands; otherwise only this table uses it. Returns false after a signal.
  bool calibrate() {
    const bool is_given = std::any_of(words_.more.begin(), words_.more.end(), [](const std::string& word) {
      return word.starts_with("--calibration");
    });
    if (is_given && !words_.calibrate) return true;
    const std::string path = words_.output_dir + "/calibration.json";
    if (words_.calibrate || !fs::exists(path)) {
      std::vector<std::string> folders;
      for (const Experiment& run : calibration_runs(words_.more)) {
        if (!run_alone(run, folders)) return false;
      }
      write_file(path, calibration_json(folders));
    }
    if (words_.calibrate) {
      const std::string calibration = read_file(path);
      print("wrote " + keep_calibration(calibration, program_environment()));
      if (words_.json) print_json(calibration);
    } else {
      words_.more.insert(words_.more.end(), {"--calibration", path});
    }
    return true;
  }

  // Performs a run from which the calibration is computed, and adds its output folder to `folders`. Returns false after a signal.
  bool run_alone(const Experiment& run, std::vector<std::string>& folders) {
    const std::string folder = words_.output_dir + "/calibration/" + run.key;
    Child child = start_run(run, folder);
    if (!wait_for(child, run.name)) return false;
    if (child.exit_code() != 0) fail_as(child, run.name + ": ");
    folders.push_back(folder);
    return true;
  }

  // Throws an error with the message and code of the child, or kInternal if its exit code is not an
  // ErrorCode, for example after a signal.
  [[noreturn]] static void fail_as(const Child& child, const std::string& context) {
    const int code = child.exit_code();
    std::string said = child.said_after("plimsoll: ");
    if (said.empty()) said = "ended with exit code " + std::to_string(code) + ": " + child.last_line();
    throw Error(is_error_code(code) ? static_cast<ErrorCode>(code) : ErrorCode::kInternal,
                "bench: " + context + said);
  }

  // Returns true if the arguments select a GPU: --device cuda:N.
  bool is_for_gpu() const {
    const std::vector<std::string> words = device_arguments(words_.more);
    return std::any_of(words.begin(), words.end(), [](const std::string& word) {
      return word.starts_with("cuda") || word.starts_with("--device=cuda");
    });
  }

  // Starts a run in its own process, in a folder that contains nothing but its output.
  static Child start_run(const Experiment& run, const std::string& folder) {
    // row.json contains the results of earlier runs of the same experiment. It is kept, so that they are not lost if
    // this run is interrupted.
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().filename() != "row.json") fs::remove_all(entry.path());
    }
    fs::create_directories(folder);
    std::vector<std::string> words;
    if (!run.environment.empty()) words.emplace_back("env");
    words.insert(words.end(), run.environment.begin(), run.environment.end());
    words.insert(words.end(), {own_program(), "bench", "--one_run"});
    words.insert(words.end(), run.words.begin(), run.words.end());
    words.insert(words.end(), {"--output_dir", folder});
    return {words, folder + "/output.txt"};
  }

  bool calibrate_gpu() {
    std::vector<std::string> folders;
    for (const Experiment& run : gpu_constant_runs(words_.more)) {
      if (!run_alone(run, folders)) return false;
    }
    const std::string path = keep_gpu_constant(folders, program_environment());
    print("wrote " + path);
    if (words_.json) print_json(read_file(path));
    return true;
  }

  std::string folder_of(const ExperimentRow& row) const {
    return words_.output_dir + "/rows/" + row.experiment.key;
  }

  // If the speeds of an experiment still differ too much after its three or more runs, it is run
  // twice more. The spread of five speeds does not count the fastest and the slowest one.
  int most_rounds() const { return words_.repeats < 3 ? words_.repeats : words_.repeats + 2; }

  bool needs_run(const ExperimentRow& row, int round) const {
    if (!row.figures) return row.refused.empty();
    const auto num_runs = static_cast<int>(row.figures->speeds.size());
    return num_runs <= round &&
           (round < words_.repeats || speed_spread(*row.figures).value_or(0) > kSteadySpread);
  }

  std::string head_of(size_t index) const {
    return "[" + std::to_string(index + 1) + "/" + std::to_string(rows_.size()) + "] " +
           rows_[index].experiment.name;
  }

  void run_row(size_t index, int round) {
    ExperimentRow& row = rows_[index];
    const std::string folder = folder_of(row);
    const std::string head = head_of(index) + (round > 0 ? ", run " + std::to_string(round + 1) : "");
    Child child = start_run(row.experiment, folder);
    if (!wait_for(child, head)) return;
    if (child.exit_code() == 0) {
      const ExperimentFigures run = read_experiment(folder);
      if (!row.figures) row.figures = ExperimentFigures{};
      add_run(*row.figures, run);
    } else {
      row.figures.reset();
      take_refusal(child, row);
    }
    if (words_.peer && row.figures && !row.peer) run_peer(row, head);
    if (stop_signal != 0) return;
    write_file(folder + "/row.json", experiment_row_json(row));
    say(head + outcome(row));
  }

  // Takes the stored result of an experiment that an earlier call of `bench` has run with the same arguments, if there
  // is one and --rerun does not request another run.
  void take_kept(size_t index) {
    ExperimentRow& row = rows_[index];
    const std::string path = folder_of(row) + "/row.json";
    if (!fs::exists(path) || is_named(row.experiment, words_.rerun)) return;
    ExperimentRow kept = parse_experiment_row(read_file(path), path);
    if (!(kept.experiment == row.experiment) || !kept.figures || (words_.peer && !kept.peer)) return;
    row = std::move(kept);
    say(head_of(index) + ": there already" + outcome(row));
  }

  // Waits for the end of a process. Returns false after a signal.
  static bool wait_for(Child& child, const std::string& head) {
    const bool draws = is_terminal();
    while (child.is_running(draws ? 250 : 1000)) {
      if (stop_signal != 0) return false;
      if (!draws) continue;
      const std::string line = child.last_line();
      const std::string shown = in_columns(head, line.starts_with("step ") ? line : "starting");
      std::fprintf(stderr, "\r\033[K%s", shown.c_str());
      std::fflush(stderr);
    }
    if (draws) std::fputs("\r\033[K", stderr);
    return true;
  }

  // Formats "head: line" for the width of the terminal. If they are too long, the end of `head` is cut first, then the
  // end of `line`.
  static std::string in_columns(const std::string& head, const std::string& line) {
    const auto columns = static_cast<size_t>(std::max(terminal_columns(), 20));
    std::string shown = head;
    const size_t room = columns - std::min(columns / 2, line.size() + 2);
    if (shown.size() > room) shown = shown.substr(0, room - 2) + "..";
    return (shown + ": " + line).substr(0, columns);
  }

  // Stores the reason why an experiment has no measurements: the error in its arguments, or the exit code and the last
  // message of a run that failed. `bench` then continues with the next experiment. A loss that is not finite is a
  // result of the arguments; any other failed run is reported at the end.
  void take_refusal(const Child& child, ExperimentRow& row) {
    const std::string said = child.said_after("plimsoll: ");
    const int code = child.exit_code();
    if (code == static_cast<int>(ErrorCode::kUsage) || code == static_cast<int>(ErrorCode::kWillNotFit)) {
      row.refused = said.substr(0, said.find('\n'));
      return;
    }
    row.refused =
        "ended with exit code " + std::to_string(code) + ": " + (said.empty() ? child.last_line() : said);
    if (code == static_cast<int>(ErrorCode::kNotFinite)) return;
    if (failed_rows_++ == 0)
      failure_ = is_error_code(code) ? static_cast<ErrorCode>(code) : ErrorCode::kInternal;
  }

  void run_peer(ExperimentRow& row, const std::string& head) {
    const std::string folder = folder_of(row);
    std::vector<std::string> words{words_.peer_python, words_.peer_script, folder + "/peer.json"};
    words.insert(words.end(), row.experiment.words.begin(), row.experiment.words.end());
    Child child(words, folder + "/peer_output.txt");
    if (!wait_for(child, head + ", Trainer")) return;
    PeerFigures peer;
    if (child.exit_code() == 0) {
      peer = parse_peer_figures(read_file(folder + "/peer.json"), folder + "/peer.json");
    } else {
      peer.refused = child.exit_code() == 127 ? peer_fault(child) : child.last_line();
    }
    row.peer = peer;
  }

  static std::string outcome(const ExperimentRow& row) {
    if (!row.figures) return ": " + row.refused;
    char text[128];
    std::snprintf(text, sizeof text, ": %.1f s, %.3g samples/s, %.0f MiB", row.figures->seconds,
                  row.figures->samples_per_s, static_cast<double>(row.figures->measured_bytes) / 1048576.0);
    std::string said = text;
    if (const std::optional<double> spread = speed_spread(*row.figures)) {
      std::snprintf(text, sizeof text, ", +- %.1f %% in %zu runs", 100 * *spread, row.figures->speeds.size());
      said += text;
    }
    if (row.peer && row.peer->refused.empty()) {
      std::snprintf(text, sizeof text, "; Trainer %.3g samples/s, %.0f MiB", row.peer->samples_per_s,
                    static_cast<double>(row.peer->measured_bytes) / 1048576.0);
      said += text;
      if (!row.peer->device.empty()) said += " on " + row.peer->device;
    }
    return said;
  }

  void report() const {
    const ExperimentOrigin origin = experiment_origin(rows_);
    const ExperimentReport texts = make_experiment_report(rows_, origin);
    const std::string stem = words_.output_dir + "/experiments";
    write_file(stem + ".json", texts.json);
    write_file(stem + ".csv", texts.csv);
    print(texts.table);
    print("\nwrote " + stem + ".json, .csv" + write_plots(texts, origin, stem));
    if (!texts.summary.empty()) print(texts.summary);
    if (words_.json) print_json(texts.json);
  }

  // Draws the results as plots, if any experiment has results. Returns the end of the printed line that names the
  // written files.
  std::string write_plots(const ExperimentReport& texts, const ExperimentOrigin& origin,
                          const std::string& stem) const {
    const bool has_figures = std::any_of(rows_.begin(), rows_.end(),
                                         [](const ExperimentRow& row) { return row.figures.has_value(); });
    if (!has_figures) return "; no plot, because no row ran";
    write_file(stem + ".svg", texts.svg);
    const bool has_png = write_experiment_png(rows_, origin, stem + ".png");
    return std::string(", .svg") + (has_png ? ", .png" : "; no .png, because cairo is not installed");
  }

  BenchWords words_;
  ExperimentDevice device_ = ExperimentDevice::kCpu;
  int64_t num_ranks_ = 1;  // number of ranks of each run of --parallel
  std::vector<ExperimentRow> rows_;
  // Number of experiments whose run failed. Experiments whose arguments were refused, or whose loss was not finite, do not count.
  int failed_rows_ = 0;
  ErrorCode failure_ = ErrorCode::kInternal;  // error code of the first experiment whose run failed
};

// Runs in the child process for one experiment: trains as `train` does, but does not save the weights, which `bench`
// does not need. For an experiment with several ranks it starts one process per rank with the same arguments.
int run_one(const std::vector<std::string>& words) {
  const ParseResult parsed = parse_arguments(words);
  const Arguments& arguments = parsed.arguments;
  const std::optional<int> num_local = num_local_ranks(process_environment());
  if (!num_local && arguments.nproc_per_node > 1) {
    RankCommand command{.words = {own_program(), "bench", "--one_run"},
                        .num_ranks = static_cast<int>(arguments.nproc_per_node)};
    command.words.insert(command.words.end(), words.begin(), words.end());
    return launch_ranks(command);
  }
  if (num_local) join_repeated_signals();
  if (!is_first_rank(process_environment())) leave_output_to_first_rank();
  Trainer trainer(arguments, Task::kTrain, program_environment());
  // `bench` itself chose the arguments, so warnings and notes about them are not printed.
  Remarks none({}, {});
  RunEvents no_events;
  if (!show_and_start(trainer, arguments, Task::kTrain, none, no_events)) return 0;
  const TrainOutput output = trainer.train(say);
  trainer.save_reports(output);
  MetricMap metrics = output.metrics;
  metrics["epoch"] = output.log_history.empty() ? 0.0 : output.log_history.back().epoch;
  if (arguments.do_eval) trainer.save_metrics("eval", trainer.evaluate());
  trainer.save_metrics("train", metrics);
  print(format_memory(trainer.memory()));
  return 0;
}

int run_bench_disk(const std::string& folder, const BenchWords& words) {
  constexpr int64_t kFileBytes = int64_t{512} << 20;
  const DiskBenchReport report = bench_disk(folder, kFileBytes, program_environment());
  char rates[120];
  std::snprintf(rates, sizeof rates,
                "  read %.2f GB/s, write %.2f GB/s, both at the same time %.2f GB/s in total\n",
                report.read_gb_per_s, report.write_gb_per_s, report.both_gb_per_s);
  print("disk of " + folder + ", a file of " + std::to_string(report.file_bytes >> 20) + " MiB, " +
        (report.is_direct
             ? "direct transfers"
             : "through the page cache of Linux, because the file system refuses direct transfers") +
        "\n" + rates + "wrote " + report.path +
        "; plans with --offload_optimizer nvme:FOLDER on this disk read this file");
  if (words.json) {
    print_json(json_text({{"folder", folder},
                          {"read_gb_per_s", report.read_gb_per_s},
                          {"write_gb_per_s", report.write_gb_per_s},
                          {"both_gb_per_s", report.both_gb_per_s},
                          {"file_bytes", report.file_bytes},
                          {"is_direct", report.is_direct},
                          {"written", report.path}}));
  }
  return 0;
}

}  // namespace

int run_bench(const std::vector<std::string>& words) {
  if (!words.empty() && words[0] == "--one_run") return run_one({words.begin() + 1, words.end()});
  const CommandInfo& command = command_named("bench");
  const CommandWords read = read_command_words(command, words);
  if (words.empty() || read.help) {
    print(command_screen(command, read.help_topic));
    return read.help ? 0 : static_cast<int>(ErrorCode::kUsage);
  }
  const BenchWords bench_words = read_bench_words(read);
  if (bench_words.json) keep_output_for_json();
  if (bench_words.links) return run_bench_links(bench_words, words);
  if (!bench_words.disk_folder.empty()) return run_bench_disk(bench_words.disk_folder, bench_words);
  return Bench(bench_words).run();
}

}  // namespace plimsoll::cli
