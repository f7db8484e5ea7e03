// Divides the forward and the backward pass of a pipeline stage into one forward and one backward pass per chunk of layers. No value is
// used by two chunks of a stage. Ops that share a value therefore belong to the same chunk, which the attributes of the send and receive
// ops state:
//
//   receive {chunk=0}; layer_1; send {chunk=0}; receive {chunk=1}; layer_3; send {chunk=1}
//
// The forward passes follow each other in the order of the chunks, and the backward passes in the opposite order.
#include <algorithm>
#include <numeric>

#include "graph/ops/chunk.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

constexpr int64_t kNoChunk = -1;

class ChunkOrder {
 public:
  explicit ChunkOrder(Graph& graph) : graph_(graph), parents_(graph.values().size()) {
    std::iota(parents_.begin(), parents_.end(), size_t{0});
  }

  void run() {
    for (const Op& op : graph_.ops()) connect(op);
    find_chunks();
    std::vector<Op> ops = graph_.ops();
    for (Op& op : ops) {
      const int64_t chunk = chunk_with(op);
      if (chunk != chunk_of(op)) op.attributes.set(kChunkAttribute, chunk);
    }
    std::ranges::stable_sort(ops, {}, [](const Op& op) {
      return std::pair(op.segment, op.segment == Segment::kBackward ? -chunk_of(op) : chunk_of(op));
    });
    graph_.replace_ops(std::move(ops));
  }

 private:
  // Returns true for a value that exists for one micro-batch only, in its forward pass, its backward pass or both. Returns false for
  // persistent values and inputs.
  bool is_of_pass(ValueId id) const {
    if (id == kNoValue) return false;
    const Storage storage = graph_.value(id).storage;
    return storage == Storage::kTransient || storage == Storage::kOutput;
  }

  size_t set_of(size_t value) {
    while (parents_[value] != value) value = parents_[value] = parents_[parents_[value]];
    return value;
  }

  template <typename Work>
  void for_each_value(const Op& op, const Work& work) const {
    if (op.segment == Segment::kOptimizer) return;
    for (const std::span<const ValueId> ids :
         {std::span<const ValueId>(op.inputs), std::span<const ValueId>(op.outputs)}) {
      for (const ValueId id : ids) {
        if (is_of_pass(id)) work(index_of(id));
      }
    }
  }

  void connect(const Op& op) {
    size_t first = parents_.size();
    for_each_value(op, [&](size_t value) {
      if (first == parents_.size()) first = set_of(value);
      parents_[set_of(value)] = set_of(first);
    });
  }

  void find_chunks() {
    chunks_.assign(parents_.size(), kNoChunk);
    for (const Op& op : graph_.ops()) {
      if (!op.attributes.has(kChunkAttribute)) continue;
      const int64_t chunk = chunk_of(op);
      for_each_value(op, [&](size_t value) {
        int64_t& found = chunks_[set_of(value)];
        PLIMSOLL_CHECK(found == kNoChunk || found == chunk,
                       "a value of a pipeline stage must be used by one chunk of layers, but '{}' is used by "
                       "the chunks {} and {}",
                       graph_.values()[value].name, found, chunk);
        found = chunk;
      });
    }
  }

  int64_t chunk_with(const Op& op) {
    int64_t chunk = kNoChunk;
    for_each_value(op, [&](size_t value) { chunk = std::max(chunk, chunks_[set_of(value)]); });
    return std::max<int64_t>(chunk, 0);
  }

  Graph& graph_;
  std::vector<size_t> parents_;
  // chunks_[v] is the chunk of all values that are connected with v, if v is the value that represents them in the union-find structure.
  std::vector<int64_t> chunks_;
};

}  // namespace

Pass pipeline_chunks_pass() {
  return {
      .name = "pipeline_chunks",
      .numerics = Numerics::kPreserving,
      .help = "divides the forward and backward pass of a pipeline stage into passes of its chunks of layers",
      .needed_for = "--pipeline_schedule interleaved",
      .run = [](Graph& graph) { ChunkOrder(graph).run(); }};
}

}  // namespace plimsoll
