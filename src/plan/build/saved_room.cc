#include "plan/build/saved_room.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/analysis/copies.h"
#include "plan/build/copy_waits.h"
#include "plan/build/kernel_choice.h"
#include "plan/build/op_times.h"
#include "plan/build/program_buffers.h"

namespace plimsoll {
namespace {

// Places are found for all of the room below the peak but little of it, or for nothing near it.
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
    offload_activations_pass(request.train_bucket, request.offload_least_bytes, room).run(graph_);
  }

  // The search for places ends at `enough_bytes`.
  int64_t transient_bytes(int64_t enough_bytes) const {
    std::vector<TransientBuffer> buffers = buffers_of(graph_, request_);
    return place_buffers(buffers, num_positions(), request_, layout_cut(graph_), enough_bytes).bytes;
  }

  double step_ms() const {
    std::vector<double> op_ms = op_times(graph_, find_op_kinds(graph_), request_);
    std::vector<TimedCopy> copies;
    for (const CopyInFlight& copy : find_copies(graph_)) {
      const Op& op = graph_.ops()[copy.op];
      const double bytes = schema_of(op).cost({graph_, op}, request_.train_bucket).bytes / 2;
      copies.push_back({.op = copy.op, .end = copy.end, .to = copy.to, .bytes = bytes});
    }
    add_copy_waits(copies, request_, op_ms);
    return std::accumulate(op_ms.begin(), op_ms.end(), 0.0);
  }

  static std::vector<TransientBuffer> buffers_of(const Graph& graph, const PlanRequest& request) {
    const Bucket& bucket = request.train_bucket;
    const std::vector<int64_t> scratch_bytes = KernelChoice(graph).scratch_bytes(graph, bucket, request);
    return ProgramBuffers(graph).of(graph, bucket, scratch_bytes, request.device).on_device;
  }

 private:
  uint32_t num_positions() const { return static_cast<uint32_t>(graph_.ops().size()); }

  const PlanRequest& request_;
  Graph graph_;
};

std::vector<int64_t> live_bytes_of(const Graph& graph, const PlanRequest& request) {
  std::vector<LiveRange> ranges;
  for (const TransientBuffer& buffer : Trial::buffers_of(graph, request))
    ranges.push_back(
        {.root = buffer.root, .bytes = buffer.bytes, .first = buffer.first, .last = buffer.last});
  return live_bytes(ranges, graph.ops().size(), arena_alignment(request.device));
}

}  // namespace

SavedRoom find_saved_room(const Graph& graph, const PlanRequest& request) {
  const Trial tight(graph, request, {});
  const int64_t most_bytes = tight.transient_bytes(0);
  SavedRoom best;
  double best_ms = tight.step_ms();
  SavedRoom room{.live_bytes = live_bytes_of(graph, request)};
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
