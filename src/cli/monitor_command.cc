#include "plimsoll/monitor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <csignal>
#include <optional>

#include "cli/command.h"
#include "cli/signal_reader.h"
#include "plimsoll/environment_report.h"

namespace plimsoll::cli {
namespace {

struct MonitorWords {
  MonitorOptions options;
  std::optional<double> watch_s;
  bool json = false;
  bool topology = false;
};

// The longest interval is one day. The limit avoids overflow in the arithmetic of the clock.
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

// Refuses options that have no effect with --topology. The topology always contains all GPUs,
// because links connect pairs of GPUs, and is shown only once, because links do not change.
void refuse_with_topology(const CommandWords& words) {
  for (const char* option : {"device", "watch", "capabilities", "context"}) {
    if (!words.has(option)) continue;
    throw Error(ErrorCode::kUsage, std::string("monitor: --topology and --") + option +
                                       ": --topology shows the links between all GPUs, once; omit --" +
                                       option);
  }
}

MonitorWords read_words(const CommandInfo& command, const CommandWords& words) {
  require_words(command, words, 0);
  MonitorWords read;
  read.topology = words.has("topology");
  if (read.topology) refuse_with_topology(words);
  if (words.has("watch"))
    read.watch_s = words.value("watch").empty() ? 1.0 : checked_seconds(words.value("watch"));
  read.options.device = words.value("device");
  if (words.has("device") && read.options.device.empty())
    throw Error(ErrorCode::kUsage, "monitor: --device needs the number of a GPU, 0 for the first");
  read.json = words.has("json");
  read.options.with_capabilities = words.has("capabilities");
  read.options.with_context = words.has("context");
  return read;
}

// Waits for `wait_s` seconds or until a signal arrives. Returns true if a signal, also an earlier one, asks this process to end.
bool is_ended_within(double wait_s, const SignalReader& signals) {
  pollfd polled{.fd = signals.descriptor(), .events = POLLIN, .revents = 0};
  const auto wait_ms = static_cast<int>(std::min(1e3 * wait_s, static_cast<double>(INT_MAX)));
  // If a signal interrupts the wait or stops this process for a while, the next sample is taken early, which does no harm.
  poll(&polled, 1, wait_ms);
  while (const int signal = signals.next()) {
    if (signal == SIGTSTP) SignalReader::stop_until_continued();
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) return true;
  }
  return false;
}

// Returns the text that draws the table over the previous one on a terminal. It does not clear the whole screen first, because
// the screen would then flicker.
std::string drawn_over(const std::string& table) {
  std::string text = "\033[H";
  for (const char c : table) {
    if (c == '\n') text += "\033[K";
    text += c;
  }
  return text + "\033[J";
}

void watch(const Monitor& monitor, const MonitorWords& words) {
  // Waits for signals with a SignalReader. A handler that only sets a flag would not be enough: it could run between the check of the flag
  // and the sleep, and the sleep would then not be interrupted.
  const SignalReader signals;
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
  const CommandInfo& command = command_named("monitor");
  const CommandWords sorted = read_command_words(command, words);
  if (sorted.help) {
    print(command_screen(command, sorted.help_topic));
    return 0;
  }
  const MonitorWords read = read_words(command, sorted);
  if (read.topology) {
    const TopologyReport report = read_topology_report(read.options.library);
    print(read.json ? report.json : report.text);
    return 0;
  }
  const Monitor monitor(read.options);
  if (read.watch_s) {
    watch(monitor, read);
    return 0;
  }
  const MonitorReport report = monitor.sample();
  print(read.json ? report.json : report.table);
  return 0;
}

int run_env(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("env");
  const CommandWords read = read_command_words(command, words);
  if (read.help) {
    print(command_screen(command, read.help_topic));
    return 0;
  }
  require_words(command, read, 0);
  const EnvironmentReport report = describe_environment();
  print(read.has("json") ? report.json : report.text);
  return 0;
}

}  // namespace plimsoll::cli
