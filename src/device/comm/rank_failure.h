// Stores the failure of another rank. A thread of the communicator between the processes reports the failure, and the
// thread that uses the GPU asks later if there was one. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/check.h"

namespace plimsoll {

class RankFailure {
 public:
  // Stores the text of the first failure and ignores later ones. Returns true for the first.
  bool report(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (!text_.empty()) return false;
    text_ = text;
    is_reported_.store(true, std::memory_order_release);
    return true;
  }
  bool is_reported() const { return is_reported_.load(std::memory_order_acquire); }
  // Throws if a failure was reported. Errors: kDevice with the reported text.
  void require_none() const {
    if (!is_reported()) return;
    const std::lock_guard lock(mutex_);
    // A text with several lines ends with a table, so no period is added to it.
    throw_error(ErrorCode::kDevice, "the ranks can no longer exchange data: {}{}", text_,
                text_.find('\n') == std::string::npos ? "." : "");
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  std::atomic<bool> is_reported_ = false;
};

}  // namespace plimsoll
