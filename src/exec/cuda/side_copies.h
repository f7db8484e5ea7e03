// Copies between the device's arena and the host's, beside the ops of a segment: a stream for each direction.
// A copy starts when the ops before it are done, and the ops' stream waits for it where the plan says. Used
// by the CUDA back end alone; not thread-safe.
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
  // Streams and events for the largest program; none where nothing lies on the host.
  SideCopies(const Plan& plan, CudaStream ops) : ops_(ops) {
    if (plan.host_arena_bytes == 0) return;
    streams_ = std::vector<CudaSideStream>(kNumSpaces);
    size_t most = 0;
    for (const std::optional<ProgramPlan>* program : {&plan.train, &plan.evaluate}) {
      if (!*program) continue;
      most = std::max(most, static_cast<size_t>(std::ranges::count_if(
                                (*program)->ops, [](const OpPlan& op) { return op.copies_to.has_value(); })));
    }
    ends_ = std::vector<CudaEvent>(most);
    under_way_.reserve(most);
  }

  CudaStream stream_to(Space space) const { return streams_[index_of(space)].get(); }

  // Before a segment: none is under way.
  void begin() {
    under_way_.clear();
    num_started_ = 0;
  }
  // Starts a copy behind the ops that were given before: `give` gives it to stream_to(to). The op at position
  // `end` is the first that waits for it.
  template <typename Give>
  void start(Space to, uint32_t end, const Give& give) {
    CudaEvent& done = ends_[num_started_++];
    ops_so_far_.record(ops_);
    ops_so_far_.hold_back(stream_to(to));
    give();
    done.record(stream_to(to));
    under_way_.emplace_back(end, &done);
  }
  // Ops that are given from now on wait for the copies that have to be over before the op at this position.
  void hold_back_before(uint32_t position) {
    std::erase_if(under_way_, [&](const std::pair<uint32_t, CudaEvent*>& copy) {
      if (copy.first > position) return false;
      copy.second->hold_back(ops_);
      return true;
    });
  }
  void hold_back_for_all() { hold_back_before(std::numeric_limits<uint32_t>::max()); }

 private:
  CudaStream ops_;
  CudaEvent ops_so_far_;
  std::vector<CudaSideStream> streams_;  // by the space that they copy to
  std::vector<CudaEvent> ends_;          // of the copies of a segment, in the order of their starts
  size_t num_started_ = 0;
  std::vector<std::pair<uint32_t, CudaEvent*>> under_way_;  // the position that waits, and for what
};

}  // namespace plimsoll
