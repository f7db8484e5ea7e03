#include "cli/signal_reader.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

#include "cli/interrupt.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

// Returns true if this process ignores the signal because nohup, or a shell without job control, started it with the
// signal ignored. Such a signal stays ignored. SIGINT is an exception: obey_sent_interrupts() has replaced its action
// by a handler, so SIGINT is read.
bool is_ignored_signal(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void fail_in_system(const std::string& action) {
  throw Error(ErrorCode::kDevice, "cannot " + action + ": " + std::strerror(errno));
}

SignalReader::SignalReader() {
  // Restores the default action of SIGCHLD, because a process that ignores SIGCHLD cannot wait for its children.
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGTSTP}) {
    if (!is_ignored_signal(signal)) sigaddset(&set, signal);
  }
  reader_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (reader_.get() < 0) fail_in_system("read signals");
  sigprocmask(SIG_BLOCK, &set, &before_);
}

SignalReader::~SignalReader() {
  // Discards signals that arrived after the children had ended, because there is nothing left to stop.
  while (next() != 0) continue;
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int SignalReader::next() const {
  signalfd_siginfo info{};
  while (read(reader_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    // A positive code means that the kernel sent the signal, on behalf of the terminal.
    if (signal == SIGINT && info.ssi_code > 0 && obeys_only_sent_interrupts()) continue;
    return signal;
  }
  return 0;
}

void SignalReader::stop_until_continued() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  static_cast<void>(std::raise(SIGTSTP));
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
}

}  // namespace plimsoll::cli
