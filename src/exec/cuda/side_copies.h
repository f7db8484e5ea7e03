// Copies between the device's arena and the host's arena that run concurrently with the ops of a segment, on one stream per
// direction. A copy starts when the ops before it are done, and the ops' stream waits for the copy at the position that the
// plan states. Only for the CUDA backend; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "device/cuda/event.h"
#include "plan/compile/plan.h"

namespace plimsoll {

class SideCopies {
 public:
  // Creates streams and events for the largest program; none if the plan keeps nothing on the host.
  SideCopies(const Plan& plan, CudaStream ops) : ops_(ops) {
    if (plan.host_arena_bytes == 0) return;
    streams_ = std::vector<CudaSideStream>(kNumSpaces);
    size_t most = 0;
    for (const ProgramPlan& program : plan.programs) {
      most = std::max(most, static_cast<size_t>(std::ranges::count_if(
                                program.ops, [](const OpPlan& op) { return op.copies_to.has_value(); })));
    }
    ends_ = std::vector<CudaEvent>(most);
    in_flight_.reserve(most);
  }

  CudaStream stream_to(Space space) const { return streams_[index_of(space)].get(); }

  // Has to be called before a segment, when no copy is in flight.
  void begin() {
    in_flight_.clear();
    num_started_ = 0;
  }
  // Starts a copy after the ops that were enqueued before: `enqueue` enqueues it on stream_to(to). The op at position `end`
  // is the first that waits for it.
  template <typename Enqueue>
  void start(Space to, uint32_t end, const Enqueue& enqueue) {
    CudaEvent& done = ends_[num_started_++];
    ops_so_far_.record(ops_);
    ops_so_far_.hold_back(stream_to(to));
    enqueue();
    done.record(stream_to(to));
    in_flight_.emplace_back(end, &done);
  }
  // Makes ops that are enqueued from now on wait for the copies that must have ended before the op at this position.
  void hold_back_before(uint32_t position) {
    std::erase_if(in_flight_, [&](const std::pair<uint32_t, CudaEvent*>& copy) {
      if (copy.first > position) return false;
      copy.second->hold_back(ops_);
      return true;
    });
  }
  void hold_back_for_all() { hold_back_before(std::numeric_limits<uint32_t>::max()); }

 private:
  CudaStream ops_;
  CudaEvent ops_so_far_;
  std::vector<CudaSideStream> streams_;  // indexed by the space that they copy to
  std::vector<CudaEvent> ends_;          // ends of the copies of a segment, in the order of their starts
  size_t num_started_ = 0;
  std::vector<std::pair<uint32_t, CudaEvent*>> in_flight_;  // the position that waits, and for what
};

}  // namespace plimsoll
