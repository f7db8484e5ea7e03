// Copies the values that the forward pass saves for the backward pass to the host's memory as soon as they are
// produced, and back before their first reader in the backward pass:
//
//   forward   ... x_k | out k, ops that read x_k, ... x_k+1 | out k+1 ...
//   backward  ... in j+1, the first reader of x_j | in j+2, the first reader of x_j+1 | ...
//
// `out k` copies x_k to the host and `in j` copies x_j back; both run at the same time as the ops after them. If the free memory is not
// known, at most two values wait for their copy to the host, the copy of x_j back to the device starts when the backward pass has read
// x_j-2, and the values that the backward pass reads first stay on the device. If the free memory is known, more values stay, and copies
// have as much time as memory allows: saved_transfers.h. With this pass a buffer on the device is live only during two parts of the
// interval in which it would be live without the pass, so the pass never raises the peak.
#include <algorithm>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"
#include "graph/passes/saved_transfers.h"

namespace plimsoll {
namespace {

// A saved value that is copied to the host.
struct MovedValue {
  ValueId saved = kNoValue;
  ValueId on_host = kNoValue;
  ValueId back = kNoValue;
  SavedValue at = {};
  SavedTransfer transfer = {};
};

class OffloadActivations {
 public:
  OffloadActivations(Graph& graph, const Bucket& bucket, int64_t least_bytes, const ActivationHeadroom& room)
      : graph_(graph), bucket_(bucket), least_bytes_(least_bytes), room_(room) {}

  void run() {
    find_saved();
    choose_transfers();
    if (moved_.empty()) return;
    for (MovedValue& value : moved_) add_values(value);
    graph_.replace_ops(schedule());
  }

 private:
  // Finds the saved values, in the order of their producers.
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
        const auto list = readers[index_of(id)];
        const auto first = std::find_if(list.begin(), list.end(), [&](uint32_t reader) {
          return graph_.ops()[reader].segment != Segment::kForward;
        });
        if (first == list.end() || graph_.ops()[*first].segment != Segment::kBackward) continue;
        moved_.push_back({.saved = id,
                          .at = {.bytes = value.bytes(bucket_),
                                 .producer = i,
                                 .last_reader = first == list.begin() ? i : *std::prev(first),
                                 .first_reader = *first}});
      }
    }
  }

  uint32_t first_behind_forward() const {
    const auto behind =
        std::ranges::find_if(graph_.ops(), [](const Op& op) { return op.segment != Segment::kForward; });
    return static_cast<uint32_t>(behind - graph_.ops().begin());
  }

  // Decides for each saved value when it is copied to the host and back, or that it stays on the device. Removes the values that stay from
  // moved_.
  void choose_transfers() {
    std::vector<SavedValue> values;
    for (const MovedValue& value : moved_) values.push_back(value.at);
    const std::vector<SavedTransfer> transfers =
        transfers_of_saved_values(values, first_behind_forward(), room_);
    for (size_t k = 0; k < moved_.size(); ++k) moved_[k].transfer = transfers[k];
    std::erase_if(moved_, [](const MovedValue& value) { return value.transfer.stays; });
  }

  ValueId add_like(ValueId value, std::string_view what, Space space) {
    const Value like = graph_.value(value);
    const ValueId id =
        graph_.add_value(graph_.unique_name(like.name + std::string(what)), like.type, Storage::kTransient);
    graph_.value(id).module = like.module;
    graph_.value(id).space = space;
    return id;
  }

  // Declares the copy of the value on the host and the copy back on the device. Ops after the forward pass then use the copy back instead
  // of the value.
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
    std::vector<const MovedValue*> by_first_reader;
    for (const MovedValue& value : moved_) by_first_reader.push_back(&value);
    std::ranges::stable_sort(by_first_reader, {},
                             [](const MovedValue* value) { return value->at.first_reader; });
    std::vector<Op> ops;
    size_t started = 0;  // number of copies to the host that have been inserted
    size_t ended = 0;    // number of copies to the host that must end before op i
    size_t next_in = 0;
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      for (; next_in < by_first_reader.size() && by_first_reader[next_in]->transfer.in_starts_before == i;
           ++next_in)
        ops.push_back(
            copy(by_first_reader[next_in]->on_host, by_first_reader[next_in]->back, Segment::kBackward));
      ops.push_back(graph_.ops()[i]);
      if (ops.back().segment == Segment::kForward) {
        const size_t before = ended;
        while (ended < moved_.size() && moved_[ended].transfer.out_ends_before <= i) ++ended;
        if (ended > before) ops.back().attributes.set("ended", static_cast<int64_t>(ended));
      }
      for (; started < moved_.size() && moved_[started].at.producer == i; ++started)
        ops.push_back(copy(moved_[started].saved, moved_[started].on_host, Segment::kForward));
    }
    return ops;
  }

  Graph& graph_;
  const Bucket& bucket_;
  int64_t least_bytes_;
  const ActivationHeadroom& room_;
  std::vector<MovedValue> moved_;  // values that are copied to the host, in the order of their producers
};

}  // namespace

Pass offload_activations_pass(const Bucket& bucket, int64_t least_bytes, ActivationHeadroom room) {
  return {.name = "offload_activations",
          .numerics = Numerics::kPreserving,
          .help = "stores saved activations in host memory between the forward and the backward pass",
          .run = [bucket, least_bytes, room = std::move(room)](Graph& graph) {
            OffloadActivations(graph, bucket, least_bytes, room).run();
          }};
}

}  // namespace plimsoll
