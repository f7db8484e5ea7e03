// Lets a process read its signals from a descriptor, so that poll() can wait for signals and for pipes at the same time.
// The class is not thread-safe, but a signal is found whichever thread of the process the kernel gives it to.
#pragma once

#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::cli {

// Throws kDevice with a message that names the failed action and contains the text of errno.
[[noreturn]] void fail_in_system(const std::string& action);

// Owns an open file descriptor and closes it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }
  void reset() {
    if (number_ >= 0) close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

// While this object exists, SIGCHLD, SIGINT, SIGTERM, SIGHUP and SIGTSTP are returned by next() instead of having their
// usual effect, except for those that this process ignores. Signals that were not read are dropped at the end. At most
// one object exists at a time.
//
// The object installs signal handlers that write to a pipe. It does not block the signals to read them with signalfd(), because
// libraries such as CUDA's create threads that do not block them: the kernel would deliver a signal to such a thread,
// where SIGCHLD has no effect, so that poll() would wait forever, and where SIGTERM would end the process.
class SignalReader {
 public:
  // Installs the handlers and opens the descriptor. Errors: kDevice.
  SignalReader();
  ~SignalReader();
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;

  // Returns the file descriptor to poll: it is readable if a signal has arrived.
  int descriptor() const { return reader_.get(); }
  // Returns the signals that this process blocked before the object was created. (The object unblocks the signals
  // that it reads.) A child process must be started with exactly these signals blocked.
  const sigset_t& mask_before() const { return before_; }
  // Returns the next signal that has arrived, or 0. A Ctrl-C that this process must not obey (interrupt.h) is skipped.
  int next() const;
  // Stops this process and returns when it is continued; to be called after next() has returned SIGTSTP. If no shell could
  // continue the process (its process group is orphaned), the kernel does not stop it, and the function returns at once.
  static void stop_until_continued();

 private:
  struct Action {
    int signal = 0;
    struct sigaction before {};
  };

  sigset_t before_{};
  std::vector<Action> actions_;
  Descriptor reader_;
  Descriptor writer_;
};

}  // namespace plimsoll::cli
