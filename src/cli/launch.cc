#include "cli/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <string_view>
#include <utility>

#include "cli/child.h"
#include "cli/output.h"
#include "cli/signal_reader.h"
#include "plimsoll/error.h"
#include "plimsoll/free_port.h"

namespace plimsoll::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kInterruptedCode = static_cast<int>(ErrorCode::kInterrupted);
constexpr int kDeviceCode = static_cast<int>(ErrorCode::kDevice);
constexpr int kNotExecutedCode = 127;  // Exit code of a child process whose program cannot be executed.
constexpr size_t kKeptErrorBytes = size_t{64} << 10;
// A rank that ends with kDevice has usually failed because another rank failed. The launcher then waits this long
// for the end of the other rank, to name that one as the cause.
constexpr std::chrono::milliseconds kPeerDelay{1000};
// If a rank other than rank 0 fails first, the launcher waits this long for rank 0 to fail with the
// same error. It then names rank 0 as the cause, because the user sees its messages.
constexpr std::chrono::milliseconds kSameErrorDelay{500};

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

std::string signal_name(int signal) {
  constexpr std::pair<int, const char*> kNames[] = {
      {SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
      {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},   {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"},
      {SIGHUP, "SIGHUP"},   {SIGQUIT, "SIGQUIT"}, {SIGPIPE, "SIGPIPE"}, {SIGSYS, "SIGSYS"},
      {SIGTRAP, "SIGTRAP"}, {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGALRM, "SIGALRM"},
      {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}};
  for (const auto& [number, name] : kNames) {
    if (number == signal) return name;
  }
  return "signal " + std::to_string(signal);
}

// Returns the environment of this process, with the values of `variables` added or replaced.
std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool is_replaced = std::any_of(variables.begin(), variables.end(), [&](const auto& variable) {
      return text.starts_with(variable.first) && text.substr(variable.first.size()).starts_with('=');
    });
    if (!is_replaced) result.emplace_back(text);
  }
  for (const auto& [name, value] : variables) {
    std::string& text = result.emplace_back(name);
    text += '=';
    text += value;
  }
  return result;
}

struct RankProcess {
  int rank = 0;
  pid_t pid = -1;
  // The reading end of a pipe to which the rank writes its standard error. Not open for rank 0, which uses the
  // standard error of this process.
  Descriptor error = Descriptor();
  std::string kept = {};         // the last bytes of the standard error of the rank
  bool has_lost_errors = false;  // true if `kept` is not complete because earlier bytes were dropped
  bool has_ended = false;
  int status = 0;  // the status that waitpid() returned

  int end_signal() const { return has_ended && WIFSIGNALED(status) ? WTERMSIG(status) : 0; }
  int exit_code() const { return has_ended && WIFEXITED(status) ? WEXITSTATUS(status) : kDeviceCode; }
  // Returns true if the process is stopped (by SIGSTOP, for example) and has not been continued.
  bool is_stopped() const {
    siginfo_t info{};
    return !has_ended && waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid && info.si_code == CLD_STOPPED;
  }
  // Returns true if this rank has probably not failed because of another rank. Ranks usually end with kDevice if another rank has failed.
  bool is_cause_by_itself() const { return end_signal() != 0 || exit_code() != kDeviceCode; }
};

// While this object exists, writing to a pipe whose reader has ended fails with an error instead of ending this
// process.
class IgnoredSigpipe {
 public:
  IgnoredSigpipe() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~IgnoredSigpipe() { static_cast<void>(std::signal(SIGPIPE, before_)); }
  IgnoredSigpipe(const IgnoredSigpipe&) = delete;
  IgnoredSigpipe& operator=(const IgnoredSigpipe&) = delete;

 private:
  void (*before_)(int);
};

// All ranks of a run, from their start to their end. If the run is restarted, a new object is created.
class RankRun {
 public:
  // `more` contains environment variables that each rank gets in addition to those of every run,
  // for example the checkpoint from which a restarted run resumes.
  RankRun(const RankCommand& command, const SignalReader& signals, const Variables& more)
      : command_(command), signals_(signals), more_(more) {}
  // Kills the ranks that still run, if an exception ends run().
  ~RankRun() {
    send_to_running(SIGKILL);
    for (const RankProcess& process : processes_) {
      if (!process.has_ended) waitpid(process.pid, nullptr, 0);
    }
  }
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  int run() {
    const int port = free_port();
    for (int rank = 0; rank < command_.num_ranks; ++rank) start(rank, port);
    // SIGPIPE is ignored, so that writing to a reader that has ended does not end this process. The ranks do not inherit this.
    const IgnoredSigpipe ignored;
    while (is_running()) {
      wait_for_event();
      read_errors();
      while (const int signal = signals_.next()) take_signal(signal);
      reap();
      act_on_time();
    }
    if (suspect_ >= 0 && cause_ < 0) report_cause();
    return result();
  }

  // Returns the rank whose failure ended the run if starting the run again may help, otherwise -1. Requires: run() has
  // returned.
  int curable_rank() const {
    if (cause_ < 0 || forwarded_ != 0) return -1;
    const RankProcess& process = processes_[static_cast<size_t>(cause_)];
    return process.end_signal() != 0 || process.exit_code() == kDeviceCode ? named_ : -1;
  }

 private:
  void start(int rank, int port) {
    Variables variables = {
        {"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(command_.num_ranks)},
        {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(command_.num_ranks)},
        {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", std::to_string(port)}};
    variables.insert(variables.end(), more_.begin(), more_.end());
    ChildSetup setup{.environment = environment_with(variables),
                     .signal_mask = &signals_.mask_before(),
                     .has_own_group = true};
    RankProcess process{.rank = rank};
    Descriptor null;
    Descriptor writer;
    if (rank > 0) {
      null = Descriptor(open("/dev/null", O_RDWR | O_CLOEXEC));
      if (null.get() < 0) fail_in_system("open /dev/null");
      std::array<int, 2> ends{};
      if (pipe2(ends.data(), O_CLOEXEC) != 0) fail_in_system("make a pipe");
      process.error = Descriptor(ends[0]);
      writer = Descriptor(ends[1]);
      // Only the reading end of the pipe is non-blocking: the rank must be able to write all of its output.
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
      setup.input = setup.output = null.get();
      setup.error = writer.get();
    }
    process.pid = start_child(command_.words, setup);
    processes_.push_back(std::move(process));
  }

  bool is_running() const {
    return std::any_of(processes_.begin(), processes_.end(), [](const auto& p) { return !p.has_ended; });
  }

  void send_to_running(int signal) const {
    for (const RankProcess& process : processes_) {
      if (!process.has_ended) kill(process.pid, signal);
    }
  }

  // Waits for a signal, for text that a rank writes to standard error, or for the time at which a failure must be reported or ranks killed.
  void wait_for_event() const {
    std::vector<pollfd> polled{{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const RankProcess& process : processes_) {
      if (process.error.get() >= 0)
        polled.push_back({.fd = process.error.get(), .events = POLLIN, .revents = 0});
    }
    int wait_ms = -1;
    for (const std::optional<Clock::time_point>& deadline : {report_at_, kill_at_}) {
      if (!deadline) continue;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      const int left_ms = static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
      wait_ms = wait_ms < 0 ? left_ms : std::min(wait_ms, left_ms);
    }
    poll(polled.data(), polled.size(), wait_ms);
  }

  void read_errors() {
    for (RankProcess& process : processes_) read_error(process);
  }

  static void read_error(RankProcess& process) {
    std::array<char, 4096> block{};
    while (process.error.get() >= 0) {
      const ssize_t count = read(process.error.get(), block.data(), block.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        process.error.reset();
        return;
      }
      process.kept.append(block.data(), static_cast<size_t>(count));
      if (process.kept.size() > 2 * kKeptErrorBytes) shorten(process);
    }
  }

  static void shorten(RankProcess& process) {
    if (process.kept.size() <= kKeptErrorBytes) return;
    process.kept.erase(0, process.kept.size() - kKeptErrorBytes);
    // The buffer may begin within a line, so its first line is removed.
    if (const size_t end = process.kept.find('\n'); end != std::string::npos) process.kept.erase(0, end + 1);
    process.has_lost_errors = true;
  }

  void take_signal(int signal) {
    if (signal == SIGCHLD) return;
    if (signal == SIGTSTP) {
      send_to_running(SIGSTOP);
      SignalReader::stop_until_continued();
      send_to_running(SIGCONT);
      return;
    }
    // A SIGHUP after another signal is ignored, because a closing terminal sends SIGHUP several times.
    if (signal == SIGHUP && forwarded_ != 0) return;
    // After a second signal, ranks that do not end within the grace time are killed.
    if (forwarded_ != 0 && !kill_at_) kill_at_ = Clock::now() + command_.grace;
    forwarded_ = signal;
    send_to_running(signal);
  }

  // Collects the exit codes of the ranks that have ended. If several are found at once, the ones that may be the cause
  // of the failure are handled first.
  void reap() {
    std::vector<RankProcess*> ended;
    for (RankProcess& process : processes_) {
      if (process.has_ended) continue;
      const pid_t done = waitpid(process.pid, &process.status, WNOHANG);
      if (done < 0 && errno != EINTR) fail_in_system("wait for rank " + std::to_string(process.rank));
      if (done != process.pid) continue;
      process.has_ended = true;
      ended.push_back(&process);
    }
    const auto order = [](const RankProcess* p) {
      return p->end_signal() != 0 ? 1 : p->is_cause_by_itself() ? 0 : 2;
    };
    std::stable_sort(ended.begin(), ended.end(),
                     [&](const auto* a, const auto* b) { return order(a) < order(b); });
    for (const RankProcess* process : ended) {
      if (is_failure(*process)) note_failure(*process);
    }
  }

  bool is_failure(const RankProcess& process) const {
    const int signal = process.end_signal();
    if (forwarded_ != 0 && (signal == forwarded_ || process.exit_code() == 128 + forwarded_)) return false;
    if (signal != 0) return true;
    return process.exit_code() != 0 && process.exit_code() != kInterruptedCode;
  }

  void note_failure(const RankProcess& process) {
    if (cause_ >= 0) return;
    if (suspect_ < 0) {
      suspect(process, process.is_cause_by_itself() ? kSameErrorDelay : kPeerDelay);
      return;
    }
    const RankProcess& before = processes_[static_cast<size_t>(suspect_)];
    const bool is_same = process.rank == 0 && process.end_signal() == 0 && before.end_signal() == 0 &&
                         process.exit_code() == before.exit_code();
    if (is_same || (process.is_cause_by_itself() && !before.is_cause_by_itself()))
      suspect(process, kSameErrorDelay);
  }

  void suspect(const RankProcess& process, std::chrono::milliseconds delay) {
    suspect_ = process.rank;
    // If rank 0 has failed with an error of its own, or a signal has ended a rank, that is
    // certainly the cause of later failures, so it is reported without waiting for other ranks.
    const bool is_certain = process.is_cause_by_itself() && (process.rank == 0 || process.end_signal() != 0);
    report_at_ = Clock::now() + (is_certain ? std::chrono::milliseconds(0) : delay);
  }

  void act_on_time() {
    const Clock::time_point now = Clock::now();
    if (report_at_ && now >= *report_at_) {
      report_cause();
      // If a signal was forwarded, the ranks are already saving. A second signal would end them at once, so none is
      // sent.
      if (forwarded_ == 0) send_to_running(SIGTERM);
      // Kills ranks that are stopped, because a stopped process does not react to SIGTERM.
      for (const RankProcess& process : processes_) {
        if (process.is_stopped()) kill(process.pid, SIGKILL);
      }
      kill_at_ = now + command_.grace;
    }
    if (kill_at_ && now >= *kill_at_) {
      kill_at_.reset();
      if (!is_running()) return;
      say_warning("some ranks did not end within " + std::to_string(command_.grace.count() / 1000) +
                  " s and are killed");
      send_to_running(SIGKILL);
    }
  }

  void report_cause() {
    report_at_.reset();
    cause_ = named_ = suspect_;
    RankProcess& process = processes_[static_cast<size_t>(cause_)];
    read_error(process);
    shorten(process);
    erase_progress_bar();
    const std::string name = "rank " + std::to_string(process.rank);
    if (process.has_lost_errors) say_for_other(name + ": (earlier messages are omitted)");
    std::string_view text = process.kept;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      say_for_other(name + ": " + std::string(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    const int signal = process.end_signal();
    if (!process.is_cause_by_itself() && report_stopped()) return;
    std::string message = place_of(process) + " ";
    message += signal != 0 ? "was ended by " + signal_name(signal)
                           : "ended with exit code " + std::to_string(process.exit_code());
    if (process.exit_code() == kNotExecutedCode) message += " (the program cannot be executed)";
    if (signal == SIGKILL)
      message +=
          ", which the system sends if memory is exhausted (see dmesg) or a limit of the job is exceeded";
    if (is_running()) message += "; the other ranks are being stopped";
    say_error(message);
  }

  static std::string place_of(const RankProcess& process) {
    return "rank " + std::to_string(process.rank) + " (process " + std::to_string(process.pid) + " on " +
           host_name() + ")";
  }

  // If other ranks have failed because they waited for a stopped rank, prints a message that names
  // it. Returns false if no rank is stopped.
  bool report_stopped() {
    bool has_found = false;
    for (const RankProcess& process : processes_) {
      if (!process.is_stopped()) continue;
      has_found = true;
      named_ = process.rank;
      say_error(place_of(process) +
                " is stopped (by SIGSTOP or a debugger), and the other ranks have waited for it; it is being "
                "killed");
    }
    return has_found;
  }

  int result() const {
    const RankProcess& first = processes_.front();
    if (forwarded_ != 0) return first.end_signal() == forwarded_ ? 128 + forwarded_ : first.exit_code();
    if (cause_ >= 0) return processes_[static_cast<size_t>(cause_)].exit_code();
    for (const RankProcess& process : processes_) {
      if (process.exit_code() != 0) return process.exit_code();
    }
    return 0;
  }

  const RankCommand& command_;
  const SignalReader& signals_;
  const Variables& more_;
  std::vector<RankProcess> processes_;  // the processes of the ranks, indexed by the rank
  int suspect_ = -1;                    // the rank whose failure is currently regarded as the cause
  int cause_ = -1;                      // the rank whose exit code is that of the run
  int named_ = -1;     // The rank that the messages name as the cause: cause_, or a stopped rank.
  int forwarded_ = 0;  // the last signal that was forwarded to the ranks; 0 if none was
  std::optional<Clock::time_point> report_at_ = std::nullopt;
  std::optional<Clock::time_point> kill_at_ = std::nullopt;
};

// Returns a signal that arrived after the ranks had ended and that asks this process to end, or 0 if there is none.
int pending_stop(const SignalReader& signals) {
  while (const int signal = signals.next()) {
    if (signal == SIGTSTP) SignalReader::stop_until_continued();
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) return signal;
  }
  return 0;
}

}  // namespace

int launch_ranks(const RankCommand& command) {
  const SignalReader signals;
  Restart restart;
  for (int num_restarts = 0;; ++num_restarts) {
    int code = 0;
    int cause = -1;
    {
      RankRun run(command, signals, restart.variables);
      code = run.run();
      cause = run.curable_rank();
    }
    if (cause < 0 || command.max_restarts == 0) return code;
    if (num_restarts == command.max_restarts) {
      say_error("the run has failed " + std::to_string(num_restarts + 1) + " times: --max_restarts " +
                std::to_string(command.max_restarts) + " permits no other start");
      return code;
    }
    restart = command.prepare_restart();
    const std::string number =
        "restart " + std::to_string(num_restarts + 1) + " of " + std::to_string(command.max_restarts);
    if (const int signal = pending_stop(signals)) {
      say_error("no " + number + ", because " + signal_name(signal) + " has arrived");
      return 128 + signal;
    }
    say_warning(number + " after the failure of rank " + std::to_string(cause) + ": " + restart.origin);
  }
}

int num_ranks_to_start(const ParseResult& parsed, std::optional<int> num_local_ranks) {
  const Arguments& arguments = parsed.arguments;
  const std::string given = "--nproc_per_node " + std::to_string(arguments.nproc_per_node);
  if (num_local_ranks) {
    if (parsed.explicitly_set.contains("nproc_per_node") && arguments.nproc_per_node != *num_local_ranks) {
      throw Error(ErrorCode::kUsage,
                  given + ": this process is a rank, and its launcher has started " +
                      std::to_string(*num_local_ranks) +
                      " on this host (LOCAL_WORLD_SIZE); omit --nproc_per_node, or start " +
                      "plimsoll without torchrun, mpirun or srun");
    }
    return 0;
  }
  const bool trains = arguments.do_train || !parsed.explicitly_set.contains("do_train");
  const bool restarts = arguments.max_restarts > 0;
  if ((arguments.nproc_per_node == 1 && !restarts) || arguments.dry_run || !trains) return 0;
  if (arguments.test_file == "-") {
    throw Error(ErrorCode::kUsage,
                arguments.nproc_per_node == 1
                    ? "--max_restarts " + std::to_string(arguments.max_restarts) +
                          " and --test_file -: a run that is started again cannot read standard input again; "
                          "name a file"
                    : given + " and --test_file -: ranks cannot share standard input; name a file");
  }
  return static_cast<int>(arguments.nproc_per_node);
}

void require_no_restarts(const Arguments& arguments, Launcher launcher) {
  if (arguments.max_restarts == 0) return;
  const std::string number = std::to_string(arguments.max_restarts);
  std::string advice;
  switch (launcher) {
    case Launcher::kTorchrun:
      advice = "torchrun has started this process and restarts it: give torchrun --max_restarts " + number +
               ", and plimsoll --resume_from_checkpoint True instead";
      break;
    case Launcher::kOpenMpi:
      advice =
          "mpirun has started this process and restarts no run: omit the option, and start mpirun again with "
          "plimsoll --resume_from_checkpoint True if the run fails";
      break;
    case Launcher::kSlurm:
      advice =
          "srun has started this process, and Slurm restarts jobs: submit the job with sbatch --requeue, and "
          "give plimsoll --resume_from_checkpoint True instead";
      break;
    case Launcher::kNone:
      return;
  }
  throw Error(ErrorCode::kUsage, "--max_restarts " + number + ": " + advice);
}

}  // namespace plimsoll::cli
