#include "cli/interrupt.h"

#include <csignal>

namespace plimsoll::cli {
namespace {

// A signal handler can access only global variables.
bool came_in_ignored = false;
void (*volatile sent_handler)(int) = nullptr;

void on_sent_interrupt(int signal, siginfo_t* info, void*) {
  // A positive code means that the kernel sent the signal, on behalf of the terminal.
  if (info->si_code > 0) return;
  if (sent_handler != nullptr) {
    sent_handler(signal);
    return;
  }
  // The signal stays pending until this handler returns.
  std::signal(signal, SIG_DFL);
  static_cast<void>(std::raise(signal));
}

}  // namespace

void obey_sent_interrupts() {
  struct sigaction action {};
  if (sigaction(SIGINT, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) return;
  came_in_ignored = true;
  action = {};
  action.sa_sigaction = on_sent_interrupt;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

void on_interrupt(void (*handler)(int signal)) {
  sent_handler = handler;
  if (!came_in_ignored) std::signal(SIGINT, handler == nullptr ? SIG_DFL : handler);
}

void ignore_interrupts_as_before() {
  if (came_in_ignored) std::signal(SIGINT, SIG_IGN);
}

}  // namespace plimsoll::cli
