// What the forward pass saves for the backward pass goes to the host's memory as soon as it is there, and
// comes back before its first reader in the backward pass:
//
//   forward   ... x_k | out k, ops that read x_k, ... x_k+2 | out k+2 ...
//   backward  ... in j+2, the first reader of x_j | in j+3, the first reader of x_j+1 | ...
//
// Before `out k+2` starts, `out k` has ended, so that at most two values wait to leave. What comes back is
// asked for two readers ahead. The values that the forward pass saves last are needed first and stay. A
// buffer on the device is live in two parts of the time that it was live before: no plan's peak is higher for
// it.
#include <algorithm>
#include <utility>

#include "graph/analysis/dependence.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

constexpr size_t kUnderWay = 2;

// A saved value that moves.
struct MovedValue {
  ValueId saved = kNoValue;
  ValueId on_host = kNoValue;
  ValueId back = kNoValue;
  uint32_t producer = 0;
  uint32_t first_reader = 0;  // of the backward pass
};

class OffloadActivations {
 public:
  OffloadActivations(Graph& graph, const Bucket& bucket, int64_t least_bytes)
      : graph_(graph), bucket_(bucket), least_bytes_(least_bytes) {}

  void run() {
    find_saved();
    if (moved_.size() <= kUnderWay) return;
    moved_.resize(moved_.size() - kUnderWay);
    for (MovedValue& value : moved_) add_values(value);
    std::vector<Op> ops = schedule();
    graph_.replace_ops(std::move(ops));
  }

 private:
  // In the order of their producers.
  void find_saved() {
    const auto readers = find_readers(graph_);
    std::vector<bool> is_replaced_before_backward(graph_.values().size(), false);
    for (const Op& op : graph_.ops()) {
      for (ValueId id : op.outputs) {
        const ValueId older = graph_.value(id).version_of;
        if (older != kNoValue && op.segment == Segment::kForward)
          is_replaced_before_backward[index_of(older)] = true;
      }
    }
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      if (graph_.ops()[i].segment != Segment::kForward) continue;
      for (ValueId id : graph_.ops()[i].outputs) {
        const Value& value = graph_.value(id);
        if (value.storage != Storage::kTransient || value.space != Space::kDevice ||
            value.bytes(bucket_) < least_bytes_ || is_replaced_before_backward[index_of(id)]) {
          continue;
        }
        const auto& list = readers[index_of(id)];
        const auto first = std::find_if(list.begin(), list.end(), [&](uint32_t reader) {
          return graph_.ops()[reader].segment != Segment::kForward;
        });
        if (first == list.end() || graph_.ops()[*first].segment != Segment::kBackward) continue;
        MovedValue moved;
        moved.saved = id;
        moved.producer = i;
        moved.first_reader = *first;
        moved_.push_back(moved);
      }
    }
  }

  ValueId add_like(ValueId value, std::string_view what, Space space) {
    const Value like = graph_.value(value);
    const ValueId id =
        graph_.add_value(graph_.unique_name(like.name + std::string(what)), like.type, Storage::kTransient);
    graph_.value(id).module = like.module;
    graph_.value(id).space = space;
    return id;
  }

  // Later readers, and what takes the bytes over, find the value that came back.
  void add_values(MovedValue& value) {
    value.on_host = add_like(value.saved, ".on_host", Space::kHost);
    value.back = add_like(value.saved, ".back", Space::kDevice);
    for (Op& op : graph_.ops()) {
      if (op.segment == Segment::kForward) continue;
      std::replace(op.inputs.begin(), op.inputs.end(), value.saved, value.back);
      for (ValueId id : op.outputs) {
        if (graph_.value(id).version_of == value.saved) graph_.value(id).version_of = value.back;
      }
    }
  }

  Op copy(ValueId from, ValueId to, Segment segment) const {
    return {.def = &copy_op(),
            .inputs = {from},
            .outputs = {to},
            .attributes = {{"to", std::string(segment == Segment::kForward ? "host" : "device")},
                           {"count", int64_t{1}},
                           {"into", int64_t{0}}},
            .segment = segment,
            .module = graph_.value(from).module};
  }

  std::vector<Op> schedule() const {
    std::vector<MovedValue> coming = moved_;
    std::stable_sort(coming.begin(), coming.end(), [](const MovedValue& a, const MovedValue& b) {
      return a.first_reader < b.first_reader;
    });
    std::vector<Op> ops;
    size_t gone = 0;     // copies to the host that have started
    size_t brought = 0;  // and back
    size_t read = 0;     // of those that come back, how many the ops before this one have read
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.ops()[i];
      while (op.segment != Segment::kForward && brought < coming.size() &&
             (brought < read + kUnderWay || coming[brought].first_reader <= i)) {
        ops.push_back(copy(coming[brought].on_host, coming[brought].back, Segment::kBackward));
        ++brought;
      }
      while (read < coming.size() && coming[read].first_reader <= i) ++read;
      ops.push_back(op);
      for (; gone < moved_.size() && moved_[gone].producer == i; ++gone) {
        ops.push_back(copy(moved_[gone].saved, moved_[gone].on_host, Segment::kForward));
        // The one before the last has left, and its bytes are free.
        if (gone >= kUnderWay) ops.back().inputs.push_back(moved_[gone - kUnderWay].on_host);
      }
    }
    return ops;
  }

  Graph& graph_;
  const Bucket& bucket_;
  int64_t least_bytes_;
  std::vector<MovedValue> moved_;
};

}  // namespace

Pass offload_activations_pass(const Bucket& bucket, int64_t least_bytes) {
  return {
      .name = "offload_activations",
      .numerics = Numerics::kPreserving,
      .help = "keeps saved values in the host's memory between the passes",
      .run = [bucket, least_bytes](Graph& graph) { OffloadActivations(graph, bucket, least_bytes).run(); }};
}

}  // namespace plimsoll
