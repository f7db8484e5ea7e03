// The thread on which a CPU runs the ops of the queue kCommunication, so that ranks exchange data
// while they compute. It runs the ops in the order of the calls of start(). One other thread starts
// ops and waits for them; nothing is allocated after construction.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace plimsoll {

class CollectiveThread {
 public:
  // `most` is the largest number of collective ops in one forward pass, backward pass or update.
  // Errors: kDevice if the system refuses a thread.
  explicit CollectiveThread(size_t most);
  // Waits for the op that is running, and drops the ops that have not started.
  ~CollectiveThread();
  CollectiveThread(const CollectiveThread&) = delete;
  CollectiveThread& operator=(const CollectiveThread&) = delete;

  // Starts an op that must have ended when the op at position `end` of its program starts. `op`
  // must exist until wait_before() or wait_for_all() has waited for it.
  void start(const std::function<void()>& op, uint32_t end);
  // Waits for the ops that must have ended before the op at this position starts, and for all ops that
  // were started earlier than these. Errors: those of the ops; after a failed op no other op runs.
  void wait_before(uint32_t position);
  // Waits for all ops. Errors: as wait_before().
  void wait_for_all();

 private:
  struct Started {
    const std::function<void()>* op = nullptr;
    uint32_t end = 0;
  };

  void work();
  void wait_until(size_t num_done);

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::condition_variable is_done_;
  std::vector<Started> started_;  // ops that were started in this forward pass, backward pass or update
  size_t num_done_ = 0;           // number of started ops that have ended
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace plimsoll
