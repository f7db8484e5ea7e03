#include "exec/cpu/collective_thread.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace plimsoll {

CollectiveThread::CollectiveThread(size_t most) {
  started_.reserve(most);
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    throw_error(ErrorCode::kDevice, "cannot start the thread that exchanges data between ranks: {}",
                error.what());
  }
}

CollectiveThread::~CollectiveThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  has_work_.notify_one();
  thread_.join();
}

void CollectiveThread::start(const std::function<void()>& op, uint32_t end) {
  {
    const std::lock_guard lock(mutex_);
    PLIMSOLL_CHECK(started_.size() < started_.capacity(),
                   "a forward pass, backward pass or update starts more than the {} collective operations "
                   "that were planned",
                   started_.capacity());
    started_.push_back({&op, end});
  }
  has_work_.notify_one();
}

void CollectiveThread::wait_before(uint32_t position) {
  // Only the calling thread changes started_, so this function may read it without the lock.
  size_t count = started_.size();
  while (count > 0 && started_[count - 1].end > position) --count;
  wait_until(count);
}

void CollectiveThread::wait_for_all() {
  wait_until(started_.size());
  const std::lock_guard lock(mutex_);
  started_.clear();
  num_done_ = 0;
}

void CollectiveThread::wait_until(size_t num_done) {
  if (num_done == 0) return;
  std::unique_lock lock(mutex_);
  is_done_.wait(lock, [&] { return num_done_ >= num_done || failure_ != nullptr; });
  if (failure_ == nullptr) return;
  started_.clear();
  num_done_ = 0;
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

void CollectiveThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    has_work_.wait(lock, [this] { return stop_ || (failure_ == nullptr && num_done_ < started_.size()); });
    if (stop_) return;
    const std::function<void()>& op = *started_[num_done_].op;
    lock.unlock();
    std::exception_ptr failure;
    try {
      op();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure != nullptr) {
      failure_ = failure;
    } else {
      ++num_done_;
    }
    is_done_.notify_one();
  }
}

}  // namespace plimsoll
