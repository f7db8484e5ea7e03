// Keeps the values that only updates read (optimizer states, and the halves of weights that no matrix product reads) in the host's memory,
// or in a file on a disk. Each update works on copies in the device's memory:
//
//   in 0 | in 1, update 0, out 0 | in 2, update 1, out 1 | in 3, ...
//
// `in` copies the states of an update to the device, and `out` copies the new states back to the host. Copies in both
// directions and the ops run at the same time. transfer_schedule.h determines when `in` starts:
//  - If the free memory is not known, `in k+2` starts when `out k` has ended and uses the same memory, so the
//    copies of at most two updates are on the device. If the states are on a disk, the states of the next update are
//    read and the states of the previous update are written while an update runs, so the copies of at most three
//    updates are on the device (Rajbhandari et al., arXiv 2104.07857, section 5.2).
//  - If it is known, states are copied as early as memory allows, during the backward pass too. The states of the
//    last updates may stay on the device until the next step, whose forward pass copies them back. If updates run in
//    the forward pass (updates_at_use_pass.cc), the states of the first ones are copied in the step before and stay.
//
// If an op updates a slice of a parameter (slice_updates_pass.cc), only that slice is copied: `in k+1` reads other
// elements of the value on the host while `out k` writes to it.
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"
#include "graph/ops/update.h"
#include "graph/passes/pass.h"
#include "graph/passes/transfer_schedule.h"

namespace plimsoll {
namespace {

// An update of the program, and the values that it updates and that are stored in host memory or on a disk.
struct Moved {
  uint32_t op = 0;
  // The values in host memory or on the disk, as they are before the first update of the step.
  std::vector<ValueId> kept = {};
  std::vector<ValueId> staged = {};   // the copies of the values in `kept` on the device
  std::vector<ValueId> updated = {};  // on the device: the new versions that the update produces
  std::vector<ValueId> stored = {};   // in host memory or on the disk: the new versions after the copy back
  // Device buffers that exist from one run to the next, for an update whose states stay on the device between two runs. If the states are
  // prefetched, the update reads its states from these buffers and writes its results into them; later in the same run, the copies in
  // `staged`, which are for the update of the next run, replace the results. If they are not prefetched, the copies in `staged` are made in
  // these buffers before the update, which overwrites them with its results.
  std::vector<ValueId> deferred = {};
  bool is_prefetched = false;
};

// A copy of a few bytes takes as long as one of some hundred kilobytes: about 8 us with the pause after it on an H200, and BERT-large has
// 400 such copies in each direction. If updates run in the forward pass, the forward pass waits for these copies, which take 3 of its 60
// ms. Therefore states of at most kSmallBytes stay on the device in this case, as long as together they have at most 1 / kShareOfSmall of
// the bytes of all states.
constexpr int64_t kSmallBytes = int64_t{64} << 10;
constexpr int64_t kShareOfSmall = 512;

void keep_small(const Graph& graph, const OpLists& readers, std::vector<bool>& movable) {
  std::vector<std::pair<int64_t, size_t>> states;
  int64_t all_bytes = 0;
  for (size_t i = 0; i < movable.size(); ++i) {
    if (!movable[i] || graph.ops()[readers[i].front()].segment != Segment::kForward) continue;
    const ValueType& type = graph.values()[i].type;
    states.emplace_back(type.shape.elements({}) * dtype_bytes(type.dtype), i);
    all_bytes += states.back().first;
  }
  std::ranges::sort(states);
  int64_t kept_bytes = 0;
  for (const auto& [bytes, value] : states) {
    kept_bytes += bytes;
    if (bytes > kSmallBytes || kept_bytes * kShareOfSmall > all_bytes) return;
    movable[value] = false;
  }
}

// Returns one entry per value: true for a persistent value that only one update reads. If the update is cut into one update per slice of
// the parameter, each of these may read the version that the previous one wrote. The entries of the small values that keep_small() leaves
// on the device are false.
std::vector<bool> find_movable(const Graph& graph) {
  const auto readers = find_readers(graph);
  std::vector<bool> movable(graph.values().size());
  for (size_t i = 0; i < movable.size(); ++i) {
    const Value& value = graph.values()[i];
    movable[i] = is_persistent(value.storage) && value.version_of == kNoValue && readers[i].size() == 1;
  }
  for (size_t i = 0; i < movable.size(); ++i) {
    const auto is_update = [&](uint32_t op) {
      return dynamic_cast<const Update*>(graph.ops()[op].def) != nullptr;
    };
    if (readers[i].size() > 1 || !std::ranges::all_of(readers[i], is_update))
      movable[index_of(root_of(graph, ValueId{static_cast<uint32_t>(i)}))] = false;
  }
  keep_small(graph, readers, movable);
  return movable;
}

std::vector<Moved> find_moved(const Graph& graph) {
  const std::vector<bool> movable = find_movable(graph);
  std::vector<Moved> list;
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (dynamic_cast<const Update*>(op.def) == nullptr) continue;
    Moved update{.op = i};
    for (ValueId output : op.outputs) {
      const ValueId kept = root_of(graph, output);
      if (!movable[index_of(kept)]) continue;
      update.kept.push_back(kept);
      update.updated.push_back(output);
    }
    if (!update.kept.empty()) list.push_back(std::move(update));
  }
  return list;
}

// Returns the type of the slice of a state that one update reads and writes.
ValueType staged_type(const Graph& graph, const Op& update, ValueId kept) {
  ValueType type = graph.value(kept).type;
  if (const auto slice = slice_of(update.attributes)) type.shape = shape_of(*slice, type.shape);
  return type;
}

// Returns true if both updates are in the same segment (for example the backward pass) and all ops between them are updates, or compute
// some rows of a gradient for an update. Any other op would need memory for its operands, in addition to states that are copied early for
// the second update.
bool follows(const Graph& graph, const Moved& first, const Moved& second) {
  if (graph.ops()[first.op].segment != graph.ops()[second.op].segment) return false;
  for (uint32_t i = first.op + 1; i < second.op; ++i) {
    const Op& op = graph.ops()[i];
    if (dynamic_cast<const Update*>(op.def) == nullptr && !op.attributes.has("first_row")) return false;
  }
  return true;
}

std::vector<MovedUpdate> in_numbers(const Graph& graph, std::span<const Moved> updates) {
  std::vector<MovedUpdate> list;
  for (size_t k = 0; k < updates.size(); ++k) {
    const Op& op = graph.ops()[updates[k].op];
    MovedUpdate update{.op = updates[k].op, .segment = op.segment};
    for (const ValueId kept : updates[k].kept) {
      const ValueType type = staged_type(graph, op, kept);
      update.state_bytes.push_back(type.shape.elements({}) * dtype_bytes(type.dtype));
      update.bytes += update.state_bytes.back();
    }
    update.follows = k > 0 && follows(graph, updates[k - 1], updates[k]);
    const bool is_last = k + 1 == updates.size();
    update.ends_run = !is_last && graph.ops()[updates[k + 1].op].segment == update.segment &&
                      !follows(graph, updates[k], updates[k + 1]);
    list.push_back(std::move(update));
  }
  return list;
}

class OffloadStates {
 public:
  OffloadStates(Graph& graph, const MemoryHeadroom& room, Space place)
      : graph_(graph),
        room_(room),
        place_(place),
        updates_(find_moved(graph)),
        in_numbers_(in_numbers(graph, updates_)) {
    PLIMSOLL_CHECK(
        place_ != Space::kDevice && (room_.live_bytes.empty() || room_.is_disk == is_on_disk()),
        "the memory headroom must be computed for the memory space '{}', which stores the optimizer "
        "states, but was computed for another space",
        space_name(place_));
  }

  void run() {
    if (updates_.empty()) return;
    for (Moved& update : updates_) move(update);
    graph_.replace_ops(schedule());
  }

 private:
  bool is_on_disk() const { return place_ == Space::kDisk; }

  ValueId add_like(ValueId value, std::string_view what, Storage storage) {
    const Value like = graph_.value(value);
    const ValueId id =
        graph_.add_value(graph_.unique_name(like.name + std::string(what)), like.type, storage);
    graph_.value(id).module = like.module;
    return id;
  }

  void move(Moved& update) {
    Op& op = graph_.ops()[update.op];
    for (size_t k = 0; k < update.kept.size(); ++k) {
      const ValueId kept = update.kept[k];
      const ValueId updated = update.updated[k];
      const Storage storage = graph_.value(kept).storage;
      const ValueId staged = add_like(kept, ".staged", Storage::kTransient);
      const ValueId stored = add_like(kept, ".stored", storage);
      graph_.value(staged).type = staged_type(graph_, op, kept);
      graph_.value(kept).space = place_;
      graph_.value(stored).space = place_;
      std::replace(op.inputs.begin(), op.inputs.end(), graph_.value(updated).version_of, staged);
      graph_.value(updated).version_of = staged;
      graph_.value(updated).storage = Storage::kTransient;
      graph_.value(updated).type = graph_.value(staged).type;
      update.staged.push_back(staged);
      update.stored.push_back(stored);
    }
  }

  // Lets the states of an update stay on the device. The forward pass of the next step copies them back.
  void defer(Moved& update) {
    for (const ValueId staged : update.staged) {
      update.deferred.push_back(add_like(staged, ".left", Storage::kDeferred));
      graph_.value(staged).version_of = update.deferred.back();
    }
  }

  // Moves the copy of the states of this update to the device from the current step to the previous step.
  void prefetch(Moved& update) {
    update.is_prefetched = true;
    for (size_t k = 0; k < update.staged.size(); ++k) {
      update.deferred.push_back(add_like(update.staged[k], ".left", Storage::kDeferred));
      std::ranges::replace(graph_.ops()[update.op].inputs, update.staged[k], update.deferred[k]);
      graph_.value(update.updated[k]).version_of = update.deferred[k];
      graph_.value(update.staged[k]).version_of = update.updated[k];
    }
  }

  static bool goes_later(const Moved& update) { return !update.deferred.empty() && !update.is_prefetched; }

  Op copy_of(const Moved& update, Space to) const {
    const Op& op = graph_.ops()[update.op];
    Op copy{.def = &copy_op(),
            .inputs = {},
            .outputs = {},
            .attributes = {{"to", std::string(space_name(to))},
                           {"count", static_cast<int64_t>(update.kept.size())},
                           {"into", int64_t{to != Space::kDevice || !update.deferred.empty()}}},
            .segment = op.segment,
            .module = op.module};
    if (const auto slice = slice_of(op.attributes)) set_slice(copy.attributes, *slice);
    return copy;
  }

  // Returns the current version of a value in host memory or on the disk, as of the copies that have been emitted until now.
  ValueId newest(ValueId kept) const {
    const auto it = newest_.find(kept);
    return it != newest_.end() ? it->second : kept;
  }

  Op copy_in(size_t k, std::span<const StateTransfer> transfers) const {
    Op copy = copy_of(updates_[k], Space::kDevice);
    for (const ValueId kept : updates_[k].kept) copy.inputs.push_back(newest(kept));
    const std::vector<ValueId>& places =
        updates_[k].is_prefetched ? updates_[k].updated : updates_[k].deferred;
    copy.inputs.insert(copy.inputs.end(), places.begin(), places.end());
    copy.outputs = updates_[k].staged;
    const size_t ended = ended_in_segment(in_numbers_, transfers, k);
    if (ended > 0) copy.attributes.set("ended", static_cast<int64_t>(ended));
    return copy;
  }

  Op copy_out(size_t k) {
    const Moved& update = updates_[k];
    Op copy = copy_of(update, place_);
    copy.inputs = goes_later(update) ? update.deferred : update.updated;
    if (goes_later(update)) copy.segment = Segment::kForward;
    for (const ValueId kept : update.kept) copy.inputs.push_back(newest(kept));
    copy.outputs = update.stored;
    for (size_t i = 0; i < update.kept.size(); ++i) {
      graph_.value(update.stored[i]).version_of = newest(update.kept[i]);
      newest_[update.kept[i]] = update.stored[i];
    }
    return copy;
  }

  TransferSchedule transfers() const {
    TransferSchedule tight{.transfers = late_transfers(in_numbers_, is_on_disk())};
    if (room_.live_bytes.empty()) return tight;
    std::vector<Segment> segments;
    for (const Op& op : graph_.ops()) segments.push_back(op.segment);
    if (in_numbers_.front().segment == Segment::kForward)
      return transfers_for_forward_updates(in_numbers_, segments, room_).value_or(std::move(tight));
    return transfers_as_early_as_possible(in_numbers_, segments, room_);
  }

  // Marks ops of the forward pass that reuse the memory of states: each must wait until a number of copies to the host has ended.
  void wait_for_released(std::span<const Release> releases) {
    for (const Release& release : releases) {
      graph_.ops()[release.before].attributes.set("ended", static_cast<int64_t>(release.ended));
    }
  }

  std::vector<Op> schedule() {
    const TransferSchedule traffic = transfers();
    std::vector<Op> ops;
    for (size_t k = updates_.size(); k-- > updates_.size() - traffic.deferred;) {
      defer(updates_[k]);
      ops.push_back(copy_out(k));
    }
    for (size_t k = 0; k < traffic.prefetched; ++k) prefetch(updates_[k]);
    wait_for_released(traffic.releases);
    const std::vector<size_t> order = order_of_copies(traffic);
    size_t next = 0;               // index in updates_ of the next update in the order of the ops
    auto next_in = order.begin();  // the update whose states are the next to be copied to the device
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      for (; next_in != order.end() && traffic.transfers[*next_in].before == i; ++next_in) {
        ops.push_back(copy_in(*next_in, traffic.transfers));
        ops.back().segment = graph_.ops()[i].segment;
      }
      ops.push_back(graph_.ops()[i]);
      if (next == updates_.size() || updates_[next].op != i) continue;
      if (!goes_later(updates_[next])) ops.push_back(copy_out(next));
      ++next;
    }
    return ops;
  }

  Graph& graph_;
  const MemoryHeadroom& room_;
  Space place_;
  std::vector<Moved> updates_;
  std::vector<MovedUpdate> in_numbers_;
  // Maps each value in Moved::kept to its current version in host memory or on the disk.
  std::map<ValueId, ValueId> newest_;
};

}  // namespace

std::vector<MovedUpdate> find_moved_updates(const Graph& graph) {
  return in_numbers(graph, find_moved(graph));
}

Pass offload_states_pass(MemoryHeadroom room, Space place) {
  return {.name = "offload_states",
          .numerics = Numerics::kPreserving,
          .help =
              "stores optimizer states in host memory or on a disk, and copies them to the device for each "
              "update",
          .run = [room = std::move(room), place](Graph& graph) { OffloadStates(graph, room, place).run(); }};
}

}  // namespace plimsoll
