#include "plan/compile/saved_room.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/compile/copy_waits.h"
#include "plan/compile/kernel_choice.h"
#include "plan/compile/op_times.h"
#include "plan/compile/program_buffers.h"
#include "plan/compile/state_schedule.h"

namespace plimsoll {
namespace {

// Of the peak. As in step_room.cc, places are found for nearly all of the room or for nothing near it.
constexpr double kSavedSharesLeftFree[] = {0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5};
// What is under way lies between what stays, which makes places harder to find. Where the link decides how
// long a step takes, a few values keep it busy: BERT-large, 32 x 512 in bf16 on an H200, is estimated at 273
// ms with 4 and at 282 with 16. Where the ops do, the link may fall behind them in the forward pass as far as
// it makes up for that later: 4 x 512 in fp32 takes 100.5 and 98.4.
constexpr size_t kMostAhead[] = {4, 16};

// A program with those of its activations in the host's memory for which a room is too little.
class Trial {
 public:
  Trial(Graph graph, const PlanRequest& request, const SavedRoom& room)
      : request_(request), graph_(std::move(graph)) {
    offload_activations_pass(request.batches.train, request.offload.least_bytes, room).run(graph_);
  }

  // The search for places ends at `enough_bytes`.
  int64_t transient_bytes(int64_t enough_bytes) const {
    const Bucket& bucket = request_.batches.train;
    const std::vector<int64_t> scratch_bytes = KernelChoice(graph_).scratch_bytes(graph_, bucket, request_);
    std::vector<TransientBuffer> buffers =
        ProgramBuffers(graph_).of(graph_, bucket, scratch_bytes, request_.device.kind).on_device;
    return place_buffers(buffers, num_positions(), request_, layout_cut(graph_), enough_bytes).bytes;
  }

  double step_ms() const {
    std::vector<double> op_ms = op_times(graph_, find_op_kinds(graph_), request_);
    add_copy_waits(timed_copies(graph_, request_.batches.train), request_, op_ms);
    return std::accumulate(op_ms.begin(), op_ms.end(), 0.0);
  }

 private:
  uint32_t num_positions() const { return static_cast<uint32_t>(graph_.ops().size()); }

  const PlanRequest& request_;
  Graph graph_;
};

}  // namespace

SavedRoom find_saved_room(const Graph& graph, const PlanRequest& request) {
  const Trial tight(graph, request, {});
  const int64_t most_bytes = tight.transient_bytes(0);
  SavedRoom best;
  double best_ms = tight.step_ms();
  SavedRoom room{.live_bytes = StateSchedules(graph, request).live_bytes()};
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
