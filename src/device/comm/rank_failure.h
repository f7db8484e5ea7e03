// Keeps the failure of another rank, which is noticed in a thread of the communicator of the hosts, until the thread that uses
// the GPU asks for it. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/check.h"

namespace plimsoll {

class RankFailure {
 public:
  // Keeps the first text. Returns true if it is the first.
  bool report(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (!text_.empty()) return false;
    text_ = text;
    is_reported_.store(true, std::memory_order_release);
    return true;
  }
  bool is_reported() const { return is_reported_.load(std::memory_order_acquire); }
  // Errors: kDevice with the text that was reported.
  void require_none() const {
    if (!is_reported()) return;
    const std::lock_guard lock(mutex_);
    // A table begins on a line of its own.
    throw_error(ErrorCode::kDevice, "the ranks can no longer exchange data: {}{}", text_,
                text_.find('\n') == std::string::npos ? "." : "");
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  std::atomic<bool> is_reported_ = false;
};

}  // namespace plimsoll
