// What only updates read, optimizer states and the parts of weights that no product reads, lives in the
// host's memory. Each update works on copies in the device's:
//
//   in 0 | in 1, update 0, out 0 | in 2, update 1, out 1 | in 3, ...
//
// `in` copies what an update reads to the device, `out` what it wrote back to the host. Before `in k+2`
// starts, `out k` has ended, whose bytes it takes; so at most two updates' copies lie in the device's memory,
// and one direction's traffic runs beside the other's and beside the updates.
#include <algorithm>
#include <optional>
#include <utility>

#include "graph/analysis/dependence.h"
#include "graph/ops/ops.h"
#include "graph/ops/update.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// An update and those of its operands that move.
struct Moved {
  uint32_t op = 0;
  std::vector<ValueId> kept = {};     // on the host
  std::vector<ValueId> staged = {};   // their copies on the device
  std::vector<ValueId> updated = {};  // the update's new versions of those
  std::vector<ValueId> stored = {};   // and of what the host keeps
};

class OffloadStates {
 public:
  explicit OffloadStates(Graph& graph) : graph_(graph) {}

  void run() {
    find_updates();
    if (updates_.empty()) return;
    for (Moved& update : updates_) move(update);
    graph_.replace_ops(schedule());
  }

 private:
  void find_updates() {
    const auto readers = find_readers(graph_);
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.ops()[i];
      if (dynamic_cast<const Update*>(op.def) == nullptr) continue;
      Moved update{.op = i};
      for (ValueId output : op.outputs) {
        const ValueId older = graph_.value(output).version_of;
        if (older == kNoValue || !is_persistent(graph_.value(older).storage) ||
            graph_.value(older).version_of != kNoValue || readers[index_of(older)].size() != 1 ||
            !readers[index_of(output)].empty()) {
          continue;
        }
        update.kept.push_back(older);
        update.updated.push_back(output);
      }
      if (!update.kept.empty()) updates_.push_back(std::move(update));
    }
  }

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
      const Storage storage = graph_.value(kept).storage;
      const ValueId staged = add_like(kept, ".staged", Storage::kTransient);
      const ValueId stored = add_like(kept, ".stored", storage);
      graph_.value(kept).space = Space::kHost;
      graph_.value(stored).space = Space::kHost;
      graph_.value(stored).version_of = kept;
      graph_.value(update.updated[k]).version_of = staged;
      graph_.value(update.updated[k]).storage = Storage::kTransient;
      std::replace(op.inputs.begin(), op.inputs.end(), kept, staged);
      update.staged.push_back(staged);
      update.stored.push_back(stored);
    }
  }

  Op copy_of(const Moved& update, std::string_view to) const {
    const Op& op = graph_.ops()[update.op];
    return {.def = &copy_op(),
            .inputs = {},
            .outputs = {},
            .attributes = {{"to", std::string(to)},
                           {"count", static_cast<int64_t>(update.kept.size())},
                           {"into", int64_t{to == "host"}}},
            .segment = op.segment,
            .module = op.module};
  }

  Op copy_in(size_t k) const {
    Op copy = copy_of(updates_[k], "device");
    copy.inputs = updates_[k].kept;
    copy.outputs = updates_[k].staged;
    // What was brought two updates ago is back on the host, and its bytes are free.
    if (k >= 2)
      copy.inputs.insert(copy.inputs.end(), updates_[k - 2].stored.begin(), updates_[k - 2].stored.end());
    return copy;
  }

  Op copy_out(size_t k) const {
    Op copy = copy_of(updates_[k], "host");
    copy.inputs = updates_[k].updated;
    copy.inputs.insert(copy.inputs.end(), updates_[k].kept.begin(), updates_[k].kept.end());
    copy.outputs = updates_[k].stored;
    return copy;
  }

  Segment segment_of(size_t k) const { return graph_.ops()[updates_[k].op].segment; }

  std::vector<Op> schedule() const {
    std::vector<Op> ops;
    size_t next = 0;     // the update that comes next
    size_t brought = 0;  // updates whose copies have been started
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      if (next == updates_.size() || updates_[next].op != i) {
        ops.push_back(graph_.ops()[i]);
        continue;
      }
      const bool has_another = next + 1 < updates_.size() && segment_of(next + 1) == segment_of(next);
      while (brought < next + (has_another ? 2 : 1)) ops.push_back(copy_in(brought++));
      ops.push_back(graph_.ops()[i]);
      ops.push_back(copy_out(next++));
    }
    return ops;
  }

  Graph& graph_;
  std::vector<Moved> updates_;
};

}  // namespace

Pass offload_states_pass() {
  return {.name = "offload_states",
          .numerics = Numerics::kPreserving,
          .help = "keeps what only updates read in the host's memory and copies it for each update",
          .run = [](Graph& graph) { OffloadStates(graph).run(); }};
}

}  // namespace plimsoll
