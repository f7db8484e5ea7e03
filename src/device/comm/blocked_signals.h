// A class whose objects block signals of the calling thread as long as they exist. Threads that are created in this time inherit
// the blocked signals. An object must be destroyed by the thread that created it.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace plimsoll {

class BlockedSignals {
 public:
  // Blocks all signals while service threads are created. These threads inherit the blocked signals, so the
  // system delivers signals of the process to other threads, those of the program that uses this library.
  static BlockedSignals all() {
    sigset_t set;
    sigfillset(&set);
    return BlockedSignals(set);
  }
  // Blocks SIGPIPE during calls of a library that writes to sockets without MSG_NOSIGNAL. A SIGPIPE that such a write raised is discarded.
  static BlockedSignals sigpipe() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return BlockedSignals(set);
  }

  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() {
    if (!sigpipe_was_pending_ && sigismember(&before_, SIGPIPE) == 0) {
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      const timespec no_wait = {};
      while (sigtimedwait(&pipe, nullptr, &no_wait) == SIGPIPE) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  explicit BlockedSignals(const sigset_t& blocked) {
    sigset_t pending;
    sigpending(&pending);
    sigpipe_was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }

  sigset_t before_ = {};
  bool sigpipe_was_pending_ = false;
};

}  // namespace plimsoll
