#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <thread>

namespace plimsoll::cli {
namespace {

// The work that a signal stops. A signal handler can access only global variables, and a signal can arrive in any thread.
struct Stoppable {
  void (*stop)(void* target);
  void* target;
  const char* notice;
};
Stoppable stoppable{};
std::atomic<const Stoppable*> running{nullptr};
std::atomic<int> handlers_at_work{0};
volatile std::sig_atomic_t signals_seen = 0;
volatile std::sig_atomic_t hung_up = 0;
volatile std::sig_atomic_t joins_repeated = 0;
std::atomic<int64_t> first_signal_ms{0};
static_assert(std::atomic<const Stoppable*>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
                  std::atomic<int64_t>::is_always_lock_free,
              "a signal handler may take no lock");

int64_t clock_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Returns true if the signal arrived within a second of the first one and counts as the same request to stop.
bool is_repeated() {
  constexpr int64_t kJoinedMs = 1000;
  if (joins_repeated == 0) return false;
  int64_t unset = 0;
  const int64_t now = clock_ms();
  return !first_signal_ms.compare_exchange_strong(unset, now) && now - unset < kJoinedMs;
}

// Asks the running work to stop. Returns the notice that tells the user what the work does before
// it ends, or null if no work is running.
const char* stop_running() {
  ++handlers_at_work;
  const Stoppable* const work = running;
  const char* const notice = work == nullptr ? nullptr : work->notice;
  if (work != nullptr) work->stop(work->target);
  --handlers_at_work;
  return notice;
}

// Saves and restores errno in a signal handler. The handler may run between a failed call and the test of its errno.
class ErrnoKeeper {
 public:
  ErrnoKeeper() = default;
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_ = errno;
};

void on_signal(int signal) {
  const ErrnoKeeper keeper;
  // When a terminal closes, the kernel and the shell each send SIGHUP. The second one must not count as a request to
  // stop at once.
  if (signal == SIGHUP && (hung_up != 0 || signals_seen != 0)) return;
  if (is_repeated()) return;
  if (signal == SIGHUP) {
    hung_up = 1;
  } else {
    signals_seen = signals_seen + 1;
  }
  // A second SIGINT or SIGTERM ends the process at once and saves nothing. The exit code is 128 + signal, which a shell reports for a
  // program that a signal has ended.
  if (signals_seen > 1) _exit(128 + signal);
  // If no work is running, nothing needs to stop: the results were saved, or the work failed and its message is being printed.
  const char* const notice = stop_running();
  if (notice != nullptr) static_cast<void>(!write(STDERR_FILENO, notice, std::strlen(notice)));
}

bool came_in_ignored = false;
void (*volatile sent_handler)(int) = nullptr;

void on_sent_interrupt(int signal, siginfo_t* info, void*) {
  const ErrnoKeeper keeper;
  // A positive signal code means that the kernel sent the signal, on behalf of the terminal. Such a signal is ignored (interrupt.h).
  if (info->si_code > 0) return;
  if (sent_handler != nullptr) {
    sent_handler(signal);
    return;
  }
  // Restores the default action and sends the signal again. It stays pending until this handler returns, and then ends
  // the process.
  std::signal(signal, SIG_DFL);
  static_cast<void>(std::raise(signal));
}

}  // namespace

void keep_signals_from_other_threads() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    while (true) pause();
  }).detach();
}

void obey_sent_interrupts() {
  struct sigaction action {};
  if (sigaction(SIGINT, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) return;
  came_in_ignored = true;
  action = {};
  action.sa_sigaction = on_sent_interrupt;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

bool obeys_only_sent_interrupts() {
  return came_in_ignored;
}

void on_interrupt(void (*handler)(int signal)) {
  sent_handler = handler;
  if (!came_in_ignored) std::signal(SIGINT, handler == nullptr ? SIG_DFL : handler);
}

StoppedBySignals::StoppedBySignals(void (*stop)(void* target), void* target, const char* notice) {
  stoppable = {.stop = stop, .target = target, .notice = notice};
  running = &stoppable;
}

StoppedBySignals::~StoppedBySignals() {
  running = nullptr;
  // Waits for signal handlers that are still running. They run in other threads, because a handler in this thread would
  // have returned by now.
  while (handlers_at_work != 0) std::this_thread::yield();
}

bool was_asked_to_stop() {
  return signals_seen != 0 || hung_up != 0;
}

void catch_signals() {
  on_interrupt(on_signal);
  std::signal(SIGTERM, on_signal);
  // If nohup has set SIGHUP to be ignored, it stays ignored.
  if (std::signal(SIGHUP, on_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

void join_repeated_signals() {
  joins_repeated = 1;
}

void release_signals() {
  on_interrupt(nullptr);
  std::signal(SIGTERM, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

void ignore_interrupts_as_before() {
  if (came_in_ignored) std::signal(SIGINT, SIG_IGN);
}

}  // namespace plimsoll::cli
