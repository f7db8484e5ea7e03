#include "plan/compile/state_schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/compile/kernel_choice.h"
#include "plan/compile/op_times.h"
#include "plan/compile/program_buffers.h"

namespace plimsoll {
namespace {

// Activations stay on the device only as long as the live bytes of the program are below a limit: the transient bytes of the plan that
// offloads all of them, reduced by one of these shares. The share is left for gaps between buffers, because the layout must not need more
// memory than that plan. The shares are tried in this order, because the layout can use either nearly all of the memory below the limit or
// only a much smaller part.
constexpr double kSavedSharesLeftFree[] = {0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5};
// The largest number of values that may be in transfer at the same time; the planner tries both numbers. Buffers of values in transfer are
// placed between those of values that stay on the device, which makes it harder to find a layout. If transfers between GPU and host limit
// the step time, a few values at a time keep the link busy: a step of BERT-large (32 sequences of 512 tokens, bf16, H200) is estimated at
// 273 ms with 4 values and at 282 ms with 16. If computation limits the step time, more values may wait for the link in the forward pass,
// because it catches up later: with 4 sequences in fp32, a step is estimated at 100.5 ms with 4 values and at 98.4 ms with 16.
constexpr size_t kMostAhead[] = {4, 16};

// Plans a program with offloaded activations, some of which stay on the device if they fit into the given headroom (memory that the
// program leaves unused below its peak).
class Trial {
 public:
  Trial(Graph graph, const PlanRequest& request, const ActivationHeadroom& room)
      : request_(request), graph_(std::move(graph)) {
    offload_activations_pass(request.batches.train, request.offload.least_bytes, room).run(graph_);
  }

  // Returns the transient bytes of the program. The search for a layout stops early at a result of at most `enough_bytes`.
  int64_t transient_bytes(int64_t enough_bytes) const {
    const Bucket& bucket = request_.batches.train;
    const std::vector<int64_t> scratch_bytes = KernelChoice(graph_).scratch_bytes(graph_, bucket, request_);
    std::vector<TransientBuffer> buffers =
        ProgramBuffers(graph_).of(graph_, bucket, scratch_bytes, request_.device.kind).on_device;
    return place_buffers(buffers, num_positions(), request_, layout_cut(graph_), enough_bytes).bytes;
  }

  double step_ms() const {
    std::vector<double> op_ms = op_times(graph_, find_op_kinds(graph_), request_);
    add_transfer_waits(timed_transfers(graph_, request_.batches.train), request_, op_ms);
    return std::accumulate(op_ms.begin(), op_ms.end(), 0.0);
  }

 private:
  uint32_t num_positions() const { return static_cast<uint32_t>(graph_.ops().size()); }

  const PlanRequest& request_;
  Graph graph_;
};

}  // namespace

ActivationHeadroom find_activation_headroom(const Graph& graph, const PlanRequest& request) {
  const Trial tight(graph, request, {});
  const int64_t most_bytes = tight.transient_bytes(0);
  ActivationHeadroom best;
  double best_ms = tight.step_ms();
  ActivationHeadroom room{.live_bytes = StateSchedules(graph, request).live_bytes()};
  for (const size_t ahead : kMostAhead) {
    room.most_ahead = ahead;
    for (const double share : kSavedSharesLeftFree) {
      room.most_bytes = most_bytes - static_cast<int64_t>(share * static_cast<double>(most_bytes));
      const Trial trial(graph, request, room);
      if (trial.transient_bytes(most_bytes) > most_bytes) continue;
      const double ms = trial.step_ms();
      if (ms < best_ms) {
        best = room;
        best_ms = ms;
      }
      break;
    }
  }
  return best;
}

}  // namespace plimsoll
