#include <algorithm>
#include <limits>

#include "graph/analysis/dependence.h"
#include "graph/analysis/liveness.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

constexpr int64_t kAlignment = 64;

int64_t peak_of(const Graph& graph, const Bucket& bucket) {
  int64_t peak = 0;
  for (int64_t bytes : live_bytes(find_live_ranges(graph, bucket), graph.ops().size(), kAlignment)) {
    peak = std::max(peak, bytes);
  }
  return peak;
}

// List scheduling: of the ops that may run next, the one after which the fewest bytes are live; the earliest
// in the given order where that is equal. Segments stay in their order.
class GreedyOrder {
 public:
  GreedyOrder(const Graph& graph, const Bucket& bucket)
      : graph_(graph), bucket_(bucket), dependences_(find_dependences(graph)) {
    uses_left_.assign(graph.values().size(), 0);
    for (const Op& op : graph.ops()) {
      for (ValueId id : op.inputs) {
        if (id != kNoValue) ++uses_left_[index_of(root_of(graph, id))];
      }
    }
  }

  std::vector<uint32_t> find() {
    const size_t n = graph_.ops().size();
    std::vector<uint32_t> missing(n);
    std::vector<uint32_t> ready;
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < n; ++i) {
      missing[i] = static_cast<uint32_t>(dependences_.before[i].size());
      if (missing[i] == 0) ready.push_back(i);
    }
    while (!ready.empty()) {
      const size_t at = choose(ready);
      const uint32_t op = ready[at];
      ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
      order.push_back(op);
      run(op);
      for (uint32_t next : dependences_.after[op]) {
        if (--missing[next] == 0) ready.insert(std::lower_bound(ready.begin(), ready.end(), next), next);
      }
    }
    return order;
  }

 private:
  size_t choose(const std::vector<uint32_t>& ready) const {
    size_t best = 0;
    int64_t best_change = std::numeric_limits<int64_t>::max();
    const Segment segment = graph_.ops()[ready.front()].segment;
    for (size_t i = 0; i < ready.size(); ++i) {
      if (graph_.ops()[ready[i]].segment != segment) continue;
      const int64_t change = change_of(ready[i]);
      if (change < best_change) {
        best_change = change;
        best = i;
      }
    }
    return best;
  }

  int64_t change_of(uint32_t index) const {
    const Op& op = graph_.ops()[index];
    int64_t change = 0;
    for (ValueId id : op.outputs) {
      const Value& value = graph_.value(id);
      if (value.storage == Storage::kTransient && value.version_of == kNoValue)
        change += value.bytes(bucket_);
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == kNoValue) continue;
      const ValueId root = root_of(graph_, op.inputs[i]);
      uint32_t here = 0;
      bool first = true;
      for (size_t k = 0; k < op.inputs.size(); ++k) {
        if (op.inputs[k] == kNoValue || root_of(graph_, op.inputs[k]) != root) continue;
        ++here;
        first = first && k >= i;
      }
      const Value& value = graph_.value(root);
      if (first && value.storage == Storage::kTransient && uses_left_[index_of(root)] == here) {
        change -= value.bytes(bucket_);
      }
    }
    return change;
  }

  void run(uint32_t index) {
    for (ValueId id : graph_.ops()[index].inputs) {
      if (id != kNoValue) --uses_left_[index_of(root_of(graph_, id))];
    }
  }

  const Graph& graph_;
  Bucket bucket_;
  Dependences dependences_;
  std::vector<uint32_t> uses_left_;
};

void reorder(Graph& graph, const Bucket& bucket) {
  const int64_t before = peak_of(graph, bucket);
  const std::vector<uint32_t> order = GreedyOrder(graph, bucket).find();
  const std::vector<Op> old_ops = graph.ops();
  std::vector<Op> ops;
  ops.reserve(order.size());
  for (uint32_t i : order) ops.push_back(old_ops[i]);
  graph.replace_ops(std::move(ops));
  if (peak_of(graph, bucket) >= before) graph.replace_ops(old_ops);
}

}  // namespace

Pass reorder_pass(const Bucket& bucket) {
  return {.name = "reorder",
          .numerics = Numerics::kPreserving,
          .help = "runs ops in an order with a lower peak, never in one with a higher peak",
          .run = [bucket](Graph& graph) { reorder(graph, bucket); }};
}

}  // namespace plimsoll
