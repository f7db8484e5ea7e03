// Delays the computation of gradients of weights that comes shortly before the end of the backward pass until the ranks have begun to
// exchange the last gradients, so that both happen at the same time. The last gradient is usually that of an embedding table, which is
// large, and nothing else would be left to compute while the ranks exchange them:
//
//   dx = matmul(dy, w)                    dx = matmul(dy, w)
//   dw = matmul(dy, x)                    d_table = embedding_bwd(dx)
//   dw.sum = all_reduce(dw)         ->    d_table.sum = all_reduce(d_table)
//   d_table = embedding_bwd(dx)           dw = matmul(dy, x)
//   d_table.sum = all_reduce(d_table)     dw.sum = all_reduce(dw)
//
// The graph stays as it is if its peak would rise, because the operands of the delayed ops live longer.
#include <algorithm>
#include <set>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Ops are delayed until their total time is this multiple of the estimated time of the last exchanges of gradients. The factor is above 1
// because these exchanges cannot begin before the earlier exchanges have ended.
constexpr double kCover = 1.5;

bool sums_gradients(const Op& op) {
  return op.segment == Segment::kBackward && (op.def == &all_reduce_op() || op.def == &reduce_scatter_op()) &&
         mesh_axis_of(op.attributes) == MeshAxis::kData;
}

class DelayGradients {
 public:
  DelayGradients(const Graph& graph, const DelayOptions& options)
      : graph_(graph),
        options_(options),
        ops_(graph.ops()),
        dependences_(find_dependences(graph)),
        readers_(find_readers(graph)),
        exchange_ms_(options.exchange_ms(graph)),
        is_delayed_(ops_.size(), false) {}

  // Returns the positions of the ops in their new order, or nothing if no op is delayed.
  std::vector<uint32_t> find_order() {
    find_candidates();
    const double wanted_ms = kCover * end_exchanges_ms();
    double delayed_ms = 0;
    for (auto candidate = candidates_.rbegin(); candidate != candidates_.rend() && delayed_ms < wanted_ms;
         ++candidate) {
      for (const uint32_t op : candidate->dependent) is_delayed_[op] = true;
      delayed_ms += candidate->ms;
    }
    if (delayed_ms == 0) return {};
    keep_before_delayed_ops();
    std::vector<uint32_t> order;
    order.reserve(ops_.size());
    const auto append = [&](uint32_t begin, uint32_t end, bool delayed) {
      for (uint32_t i = begin; i < end; ++i) {
        if (is_delayed_[i] == delayed) order.push_back(i);
      }
    };
    const auto size = static_cast<uint32_t>(ops_.size());
    append(0, last_covered_ + 1, false);
    append(0, size, true);
    append(last_covered_ + 1, size, false);
    return order;
  }

 private:
  // An op that may be delayed: its estimated time, and the positions of the op and of all ops of the backward pass that depend on it.
  struct Candidate {
    double ms = 0;
    std::vector<uint32_t> dependent;
  };

  // Finds the ops that compute only gradients which the ranks sum, and that take longer than the exchange of these gradients. Delaying such
  // an op shortens the wait at the end of the backward pass, although the exchange of its own results then starts later.
  void find_candidates() {
    for (uint32_t i = 0; i < ops_.size(); ++i) {
      const Op& op = ops_[i];
      if (op.segment != Segment::kBackward || schema_of(op).is_communication()) continue;
      if (computes_only_gradients(op)) {
        Candidate candidate{.ms = options_.op_ms({graph_, op}), .dependent = dependent_ops(i)};
        if (candidate.ms > exchange_ms_of(op, candidate.dependent)) {
          for (const uint32_t later : candidate.dependent) depends_on_candidate_.insert(later);
          candidates_.push_back(std::move(candidate));
          continue;
        }
      }
      if (!reads_sum(i)) end_of_work_ = i;
    }
  }

  // Returns the total time of the exchanges of gradients that come after the last op that cannot be delayed. Exchanges of gradients that
  // may themselves be delayed are not counted.
  double end_exchanges_ms() {
    double ms = 0;
    for (uint32_t i = end_of_work_; i < ops_.size(); ++i) {
      if (!sums_gradients(ops_[i]) || depends_on_candidate_.contains(i)) continue;
      ms += exchange_ms_[i];
      last_covered_ = i;
    }
    return ms;
  }

  // Also delays ops that a delayed op depends on if they come after the exchange `last_covered_`. An example is an op that computes another
  // gradient which the same exchange sums. One loop from the end finds all of these ops, because each precedes the op that needs it.
  void keep_before_delayed_ops() {
    for (auto i = static_cast<uint32_t>(ops_.size()); i-- > last_covered_ + 1;) {
      if (!is_delayed_[i]) continue;
      for (const uint32_t before : dependences_.before[i]) {
        if (before > last_covered_) is_delayed_[before] = true;
      }
    }
  }

  // Returns true if every result of the op is read only by an op that sums gradients over the ranks.
  bool computes_only_gradients(const Op& op) const {
    return std::ranges::all_of(op.outputs, [&](ValueId id) {
      if (id == kNoValue) return true;
      const std::span<const uint32_t> readers = readers_[index_of(id)];
      return !readers.empty() &&
             std::ranges::all_of(readers, [&](uint32_t reader) { return sums_gradients(ops_[reader]); });
    });
  }

  bool reads_sum(uint32_t i) const {
    return std::ranges::any_of(dependences_.before[i],
                               [&](uint32_t before) { return sums_gradients(ops_[before]); });
  }

  int64_t bytes_of(const ValueIds& values) const {
    int64_t bytes = 0;
    for (const ValueId id : values) bytes += id == kNoValue ? 0 : graph_.value(id).bytes({});
    return bytes;
  }

  // Returns the time of exchanging the results of the op: their share of the bytes of each exchange that depends on the op, times the time
  // of this exchange.
  double exchange_ms_of(const Op& op, const std::vector<uint32_t>& dependent) const {
    double ms = 0;
    for (const uint32_t i : dependent) {
      if (!sums_gradients(ops_[i])) continue;
      ms += exchange_ms_[i] * static_cast<double>(bytes_of(op.outputs)) /
            static_cast<double>(bytes_of(ops_[i].inputs));
    }
    return ms;
  }

  // Returns this op and all ops of the backward pass that depend on it, directly or indirectly.
  std::vector<uint32_t> dependent_ops(uint32_t op) const {
    std::vector<uint32_t> found{op};
    for (size_t i = 0; i < found.size(); ++i) {
      for (const uint32_t next : dependences_.after[found[i]]) {
        if (ops_[next].segment == Segment::kBackward && std::ranges::find(found, next) == found.end())
          found.push_back(next);
      }
    }
    return found;
  }

  const Graph& graph_;
  const DelayOptions& options_;
  const std::vector<Op>& ops_;
  const Dependences dependences_;
  const OpLists readers_;
  const std::vector<double> exchange_ms_;  // milliseconds of each exchange, indexed by the position of its op
  std::vector<Candidate> candidates_;
  std::set<uint32_t> depends_on_candidate_;
  uint32_t end_of_work_ = 0;  // position of the last op that cannot be delayed
  // Position of the last exchange of gradients that does not depend on ops that may be delayed. Delayed ops run after it has begun.
  uint32_t last_covered_ = 0;
  std::vector<bool> is_delayed_;
};

}  // namespace

Pass delay_gradients_pass(DelayOptions options) {
  return {.name = "delay_gradients",
          .numerics = Numerics::kPreserving,
          .help =
              "delays the computation of some weight gradients until the ranks exchange the last gradients "
              "of the backward pass",
          .run = [options = std::move(options)](Graph& graph) {
            const std::vector<uint32_t> order = DelayGradients(graph, options).find_order();
            if (order.empty()) return;
            const int64_t peak = peak_bytes(graph, options.bucket);
            reorder_if_peak_is_below(graph, order, options.bucket, peak + 1);
          }};
}

}  // namespace plimsoll
