#include "plimsoll/monitor.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <ctime>
#include <optional>

#include "cli/command.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kUsage =
    "usage: plimsoll monitor [--device N] [--watch [SECONDS]] [--json] [--capabilities] [--context]\n"
    "\n"
    "  --device N         one GPU: N is the index in nvidia-smi, cuda:N that of CUDA (CUDA_VISIBLE_DEVICES)\n"
    "  --watch [SECONDS]  repeat at this interval (default: 1 second); Ctrl-C ends it\n"
    "  --json             print a JSON object for programs; with --watch, one per line\n"
    "  --capabilities     number formats that the GPUs and the CPU multiply in hardware, with reasons\n"
    "  --context          measure the memory of an empty CUDA context\n"
    "\n"
    "Memory is in MiB, as in nvidia-smi. Without a GPU, only the host is shown.";

struct MonitorWords {
  MonitorOptions options;
  std::optional<double> watch_s;
  bool json = false;
};

// At most one day; the limit avoids overflow in the arithmetic of the clock.
constexpr double kMaxSeconds = 86400;

std::optional<double> seconds(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double checked_seconds(const std::string& text) {
  const std::optional<double> value = seconds(text);
  if (!value || !(*value >= 0.01) || *value > kMaxSeconds) {
    throw Error(ErrorCode::kUsage,
                "monitor: --watch " + text + ": expected seconds from 0.01 to 86400, 1 for example");
  }
  return *value;
}

MonitorWords read_words(const std::vector<std::string>& words) {
  MonitorWords read;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_next = i + 1 < words.size();
    if (word == "--watch") {
      // The next word is the value if it is not an option.
      const bool has_value = has_next && !words[i + 1].starts_with("--");
      read.watch_s = has_value ? checked_seconds(words[++i]) : 1.0;
    } else if (word.starts_with("--watch=")) {
      read.watch_s = checked_seconds(word.substr(8));
    } else if (word == "--device" || word.starts_with("--device=")) {
      read.options.device = word != "--device" ? word.substr(9) : has_next ? words[++i] : std::string();
      if (read.options.device.empty())
        throw Error(ErrorCode::kUsage, "monitor: --device needs the number of a GPU, 0 for the first");
    } else if (word == "--json") {
      read.json = true;
    } else if (word == "--capabilities") {
      read.options.with_capabilities = true;
    } else if (word == "--context") {
      read.options.with_context = true;
    } else {
      throw Error(ErrorCode::kUsage, "monitor: unknown argument '" + word +
                                         "'; it takes --device N, --watch [SECONDS], --json, --capabilities "
                                         "and --context");
    }
  }
  return read;
}

// Sleeps until the time is over or one of the signals arrives, also one that arrived since the last call.
// Requires: the signals are blocked.
bool is_ended_within(double wait_s, const sigset_t& signals) {
  timespec left{};
  left.tv_sec = static_cast<time_t>(wait_s);
  left.tv_nsec = static_cast<long>((wait_s - std::floor(wait_s)) * 1e9);
  while (true) {
    if (sigtimedwait(&signals, nullptr, &left) >= 0) return true;
    // The shell stopped and continued the process, so the sample may be early.
    if (errno == EAGAIN || errno == EINTR) return false;
  }
}

// On a terminal, each table overwrites the previous one without clearing the screen first, which would
// flicker.
std::string drawn_over(const std::string& table) {
  std::string text = "\033[H";
  for (const char c : table) {
    if (c == '\n') text += "\033[K";
    text += c;
  }
  return text + "\033[J";
}

void watch(const Monitor& monitor, const MonitorWords& words) {
  // The signals are waited for instead of handled, so none can arrive between a check of a flag and the
  // sleep.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const bool draws = !words.json && isatty(STDOUT_FILENO) != 0;
  if (draws) print("\033[2J");
  do {
    const MonitorReport report = monitor.sample();
    print(words.json ? report.json : draws ? drawn_over(report.table) : report.lines);
    flush_output();
  } while (!output_is_lost() && !is_ended_within(*words.watch_s, signals));
}

}  // namespace

int run_monitor(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word != "--help" && word != "-h") continue;
    print(kUsage);
    return 0;
  }
  const MonitorWords read = read_words(words);
  const Monitor monitor(read.options);
  if (read.watch_s) {
    watch(monitor, read);
    return 0;
  }
  const MonitorReport report = monitor.sample();
  print(read.json ? report.json : report.table);
  return 0;
}

}  // namespace plimsoll::cli
