// CUDA streams for the ops that run concurrently with the computation: one stream for each queue other
// than kCompute (graph/ops/op.h). Copies between the device's and the host's arena have one stream per
// direction. An op of such a queue starts when the ops before it are done, and the computation waits
// for it at the position that the plan states. Only for the CUDA backend; not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "device/cuda/event.h"
#include "plan/compile/plan.h"

namespace plimsoll {

class SideStreams {
 public:
  // Creates a stream for each queue that the plan uses, and events for the largest program.
  SideStreams(const Plan& plan, CudaStream ops) : ops_(ops) {
    size_t most = 0;
    for (const ProgramPlan& program : plan.programs) {
      size_t count = 0;
      for (const OpPlan& op : program.ops) {
        if (!op.is_queued()) continue;
        ++count;
        if (!streams_[index_of(op.queue)]) streams_[index_of(op.queue)].emplace(priority_of(op.queue));
      }
      most = std::max(most, count);
    }
    ends_ = std::vector<CudaEvent>(most);
    in_flight_.reserve(most);
  }

  CudaStream stream_of(Queue queue) const { return streams_[index_of(queue)]->get(); }

  // Has to be called before a segment (forward pass, backward pass or update), when all ops that were started on these streams have ended.
  void begin() {
    in_flight_.clear();
    num_started_ = 0;
  }
  // Starts an op on a queue other than kCompute, after all ops that are enqueued already. `enqueue` must enqueue
  // the op on stream_of(queue). The op at position `end` of the program is the first one that waits for it.
  template <typename Enqueue>
  void start(Queue queue, uint32_t end, const Enqueue& enqueue) {
    CudaEvent& done = ends_[num_started_++];
    ops_so_far_.record(ops_);
    ops_so_far_.hold_back(stream_of(queue));
    enqueue();
    done.record(stream_of(queue));
    in_flight_.emplace_back(end, &done);
  }
  // To be called before the op at this position is enqueued: makes it wait for those ops of other queues that must have ended before it.
  void hold_back_before(uint32_t position) {
    std::erase_if(in_flight_, [&](const std::pair<uint32_t, CudaEvent*>& queued) {
      if (queued.first > position) return false;
      queued.second->hold_back(ops_);
      return true;
    });
  }
  void hold_back_for_all() { hold_back_before(std::numeric_limits<uint32_t>::max()); }

 private:
  // Returns the priority of a queue's stream. Communication has a high priority, because its
  // kernels are short and other ranks wait for them.
  static CudaSideStream::Priority priority_of(Queue queue) {
    return queue == Queue::kCommunication ? CudaSideStream::Priority::kHigh
                                          : CudaSideStream::Priority::kNormal;
  }

  CudaStream ops_;
  CudaEvent ops_so_far_;
  std::array<std::optional<CudaSideStream>, kNumQueues> streams_;
  // One event per op on these streams in the current forward pass, backward pass or update, in the order of their start.
  std::vector<CudaEvent> ends_;
  size_t num_started_ = 0;
  std::vector<std::pair<uint32_t, CudaEvent*>>
      in_flight_;  // the position of the op that must wait, and the event for which it waits
};

}  // namespace plimsoll
