#include "cli/signal_reader.h"

#include <fcntl.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "cli/interrupt.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

struct ArrivedSignal {
  int signal = 0;
  bool is_from_kernel = false;  // true if the kernel sent the signal, on behalf of the terminal
};

// The pipe to which the handler writes, and the process that reads it. A signal handler can access only global variables.
std::atomic<int> pipe_writer{-1};
std::atomic<pid_t> reading_process{-1};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free,
              "a signal handler may take no lock");

void on_read_signal(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  if (getpid() == reading_process) {
    const ArrivedSignal arrived{.signal = signal, .is_from_kernel = info->si_code > 0};
    // If the pipe is full, it contains thousands of unread signals, so nothing is lost if this one is dropped.
    static_cast<void>(!write(pipe_writer, &arrived, sizeof arrived));
  } else {
    // This is a child between fork and exec, which has inherited the handler. The signal gets its default action when the handler returns.
    std::signal(signal, SIG_DFL);
    static_cast<void>(std::raise(signal));
  }
  errno = saved_errno;
}

void handle(int signal) {
  struct sigaction action {};
  action.sa_sigaction = on_read_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void fail_in_system(const std::string& action) {
  throw Error(ErrorCode::kDevice, "cannot " + action + ": " + std::strerror(errno));
}

SignalReader::SignalReader() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail_in_system("make a pipe for signals");
  reader_ = Descriptor(ends[0]);
  writer_ = Descriptor(ends[1]);
  pipe_writer = writer_.get();
  reading_process = getpid();
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGTSTP}) {
    Action action{.signal = signal};
    // A signal stays ignored if nohup, or a shell without job control, started this process with the signal ignored.
    // SIGINT is an exception: obey_sent_interrupts() has replaced its action by a handler. SIGCHLD is another one, because a
    // process that ignores it cannot wait for its children.
    if (sigaction(signal, nullptr, &action.before) != 0) continue;
    if (action.before.sa_handler == SIG_IGN && signal != SIGCHLD) continue;
    handle(signal);
    sigaddset(&set, signal);
    actions_.push_back(action);
  }
  pthread_sigmask(SIG_UNBLOCK, &set, &before_);
}

SignalReader::~SignalReader() {
  // Signals that arrived after the children had ended are dropped, because there is nothing left to stop.
  for (const Action& action : actions_) sigaction(action.signal, &action.before, nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  // A handler that still runs in another thread must not write to this descriptor number, because another file may get it.
  pipe_writer = -1;
}

int SignalReader::next() const {
  ArrivedSignal arrived;
  while (true) {
    const ssize_t count = read(reader_.get(), &arrived, sizeof arrived);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof arrived) return 0;
    if (arrived.signal == SIGINT && arrived.is_from_kernel && obeys_only_sent_interrupts()) continue;
    return arrived.signal;
  }
}

void SignalReader::stop_until_continued() {
  std::signal(SIGTSTP, SIG_DFL);
  static_cast<void>(std::raise(SIGTSTP));
  handle(SIGTSTP);
}

}  // namespace plimsoll::cli
