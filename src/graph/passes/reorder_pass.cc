#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "graph/analysis/analysis.h"
#include "graph/analysis/liveness.h"
#include "graph/ops/op.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// List scheduling: chooses, among the ops that may run next, the op after which the fewest bytes are live, and the first in the given order
// among equal ones. Forward pass, backward pass and optimizer keep their order.
class GreedyOrder {
 public:
  GreedyOrder(const Graph& graph, const Bucket& bucket)
      : graph_(graph), dependences_(find_dependences(graph)) {
    hold_repeated_ops_back();
    hold_readers_of_collectives_back();
    std::ranges::sort(held_);
    find_effects(bucket);
  }

  std::vector<uint32_t> find() {
    const size_t n = graph_.ops().size();
    std::vector<uint32_t> missing(n);
    for (uint32_t i = 0; i < n; ++i) missing[i] = static_cast<uint32_t>(dependences_.before[i].size());
    for (const auto& [before, after] : held_) ++missing[after];
    std::vector<uint32_t> ready;
    std::vector<uint32_t> order;
    order.reserve(n);
    for (uint32_t i = 0; i < n; ++i) {
      if (missing[i] == 0) ready.push_back(i);
    }
    const auto release = [&](uint32_t op) {
      if (--missing[op] == 0) ready.insert(std::lower_bound(ready.begin(), ready.end(), op), op);
    };
    while (!ready.empty()) {
      const size_t at = choose(ready);
      const uint32_t op = ready[at];
      ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
      order.push_back(op);
      run(op);
      for (uint32_t next : dependences_.after[op]) release(next);
      for (auto held = std::ranges::lower_bound(held_, std::pair(op, uint32_t{0}));
           held != held_.end() && held->first == op; ++held)
        release(held->second);
    }
    return order;
  }

 private:
  // Makes each op that recomputes forward values wait for the nearest earlier op in the given order that works on a gradient. Recomputation
  // itself depends on no gradient, so the op could otherwise run as soon as the backward pass begins, and its results would be live while
  // the backward passes of later blocks run.
  void hold_repeated_ops_back() {
    const std::vector<bool> repeated = find_repeated_ops(graph_);
    std::optional<uint32_t> last;
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      if (graph_.ops()[i].segment != Segment::kBackward) continue;
      if (!repeated[i]) {
        last = i;
      } else if (last) {
        held_.emplace_back(*last, i);
      }
    }
  }

  // Makes each op that reads the result of a collective operation wait for the op that precedes it in the given order. If the reader ran
  // right after the collective operation, that operation would not overlap with the ops between the two.
  void hold_readers_of_collectives_back() {
    for (uint32_t i = 1; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.ops()[i];
      if (schema_of(op).is_communication()) continue;
      const bool reads_one = std::ranges::any_of(op.inputs, [&](ValueId id) {
        const OpId producer = id != kNoValue ? graph_.value(id).producer : kNoOp;
        return producer != kNoOp && schema_of(graph_.op(producer)).is_communication();
      });
      if (reads_one) held_.emplace_back(i - 1, i);
    }
  }

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

  // The reads of a buffer by one op: how often the op reads it, and the bytes that become free if these are the last reads of the buffer.
  struct Reads {
    size_t root = 0;
    uint32_t count = 0;
    int64_t bytes = 0;
  };

  // How an op changes the number of live bytes: `born_bytes` are allocated for its outputs, and the buffers that no later op reads are
  // freed. Computed once per op, because every scheduling decision needs it.
  struct Effect {
    int64_t born_bytes = 0;
    uint32_t reads_begin = 0;  // the range of reads_ that belongs to the op
    uint32_t reads_end = 0;
  };

  std::span<const Reads> reads_of(const Effect& effect) const {
    return std::span(reads_).subspan(effect.reads_begin, effect.reads_end - effect.reads_begin);
  }

  void find_effects(const Bucket& bucket) {
    reads_left_.assign(graph_.values().size(), 0);
    effects_.reserve(graph_.ops().size());
    // The entry in reads_ of the op that read a buffer last: its position plus 1, or 0 if no op has read the buffer. The index is the
    // oldest value in the buffer.
    std::vector<uint32_t> place(graph_.values().size(), 0);
    for (const Op& op : graph_.ops()) {
      Effect effect{.reads_begin = static_cast<uint32_t>(reads_.size())};
      for (ValueId id : op.outputs) {
        const Value& value = graph_.value(id);
        if (value.storage == Storage::kTransient && value.version_of == kNoValue)
          effect.born_bytes += value.bytes(bucket);
      }
      for (ValueId id : op.inputs) {
        if (id == kNoValue) continue;
        const size_t root = index_of(root_of(graph_, id));
        ++reads_left_[root];
        if (place[root] > effect.reads_begin) {
          ++reads_[place[root] - 1].count;
          continue;
        }
        const Value& value = graph_.values()[root];
        reads_.push_back({.root = root,
                          .count = 1,
                          .bytes = value.storage == Storage::kTransient ? value.bytes(bucket) : 0});
        place[root] = static_cast<uint32_t>(reads_.size());
      }
      effect.reads_end = static_cast<uint32_t>(reads_.size());
      effects_.push_back(effect);
    }
  }

  int64_t change_of(uint32_t index) const {
    const Effect& effect = effects_[index];
    int64_t change = effect.born_bytes;
    for (const Reads& reads : reads_of(effect)) {
      if (reads_left_[reads.root] == reads.count) change -= reads.bytes;
    }
    return change;
  }

  void run(uint32_t index) {
    for (const Reads& reads : reads_of(effects_[index])) reads_left_[reads.root] -= reads.count;
  }

  const Graph& graph_;
  const Dependences dependences_;
  std::vector<std::pair<uint32_t, uint32_t>>
      held_;  // pairs of ops: the second one must also wait for the first one
  std::vector<Effect> effects_;
  std::vector<Reads> reads_;
  // For each buffer: how many reads the ops that have not run yet make. The index is the oldest value in the buffer.
  std::vector<uint32_t> reads_left_;
};

void reorder(Graph& graph, const Bucket& bucket) {
  const std::vector<uint32_t> order = GreedyOrder(graph, bucket).find();
  if (std::ranges::is_sorted(order)) return;
  const int64_t peak = peak_bytes(graph, bucket);
  reorder_if_peak_is_below(graph, order, bucket, peak);
}

}  // namespace

Pass reorder_pass(const Bucket& bucket) {
  return {.name = "reorder",
          .numerics = Numerics::kPreserving,
          .help = "orders ops for a lower peak of memory; never raises the peak",
          .run = [bucket](Graph& graph) { reorder(graph, bucket); }};
}

}  // namespace plimsoll
