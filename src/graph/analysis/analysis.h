// Analyses of a graph that several passes and the planner need. Each function reads a graph and returns its findings. Pure functions;
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/op.h"

namespace plimsoll {

// The blocks of a model: modules that repeat, such as the layers of an encoder, and the values that one block passes
// to the next. A block is named by the common path of its modules up to the first number: "encoder.layer.3" for
// "encoder.layer.3.attention". Pure; thread-safe.

// Returns the block that a module belongs to, or an empty name for a module outside all blocks.
std::string_view block_of(std::string_view module);
// Returns the block that a module belongs to, or the module itself if it is outside all blocks.
std::string_view block_or_module(std::string_view module);

// Returns one entry per op: true for a forward op whose result is read by a forward op of another
// block, or by the host. All ops outside of blocks together count as one block.
std::vector<bool> find_block_ends(const Graph& graph);

// Returns the name of the last block of the forward pass. The backward pass starts with this block and needs its values at once, so
// recomputing them instead of keeping them would save no memory. Returns "" if an op after the block, such as a language-model head, has a
// result with one row per token: the backward pass then starts with that op, and values of the block that are kept take memory meanwhile.
std::string_view last_block_before_head(const Graph& graph);

// The ops of the backward segment that recompute values of the forward pass (gradient checkpointing). Pure; thread-safe.

// Returns one entry per op: true for the ops of the backward segment that depend on no gradient, which recompute values. The first
// op of that segment creates the gradient of the loss and does not count. Requires: a valid graph. Cost: linear in operands.
std::vector<bool> find_repeated_ops(const Graph& graph);

// Copies between memory spaces and collective operations (the ops of queues other than kCompute, graph/ops/op.h) run at the same time as
// later ops. The functions below find the position at which such a queued op Q must have ended, which is that of the first of these ops
// after Q:
//  - an op that reads a result of Q, or that lists a result of Q in its operand list `after`, which orders copies;
//  - an op whose output is a newer version of an operand or of a result of Q and thus overwrites its bytes;
//  - an op with the attribute `ended` = n, which waits for the first n copies of its segment to the host;
//  - at the latest, the first op of the next segment, or of the pass of another chunk of layers (graph/ops/chunk.h).
// The first two rules do not apply to an op that copies other elements of a value than Q does. Until that position no other op may use the
// bytes that Q reads or writes. The analysis of liveness relies on this rule. Pure functions; thread-safe.

struct QueuedOp {
  uint32_t op = 0;   // position of the op that runs on the queue
  uint32_t end = 0;  // the op at this position waits until the queued op has ended; greater than `op`
  Queue queue = Queue::kToHost;
};

// Return true for a copy from a disk, and for a copy to a disk.
bool reads_disk(const Graph& graph, const Op& op);
bool writes_disk(const Graph& graph, const Op& op);

// Returns every op of a queue other than kCompute (copies and collective operations), in the order of the ops.
std::vector<QueuedOp> find_queued_ops(const Graph& graph);

// Returns the values that an op of a queue other than kCompute may still be reading after later ops have started: the copied values of a
// copy, and every input of a collective operation.
std::span<const ValueId> values_in_use(const Op& op);

// Deferred ops do work in one run of a program that the previous run has left: they update weights with gradients that are still on the
// device, copy optimizer states from the device back to the host, or gather weights of which each rank has updated its own slice. The
// values that one run leaves for the next are called deferred. All deferred ops are in the forward segment. They are skipped if there was
// no previous run, or if their work is done already. Pure functions; thread-safe.

// Returns one entry per op: true for an op that reads deferred values, for an op of the forward pass that gathers weights which every rank
// stores completely, for a copy of the results of a deferred op to the host or to a disk, and for a copy to the device whose result one of
// these ops reads.
std::vector<bool> find_deferred_ops(const Graph& graph);

// Returns the last segment of a run (forward, backward or optimizer) that writes a value which deferred ops read. After this segment, the
// deferred ops of the next run have work. Returns nothing if there are no such ops. `is_deferred` is the result of find_deferred_ops().
std::optional<Segment> find_deferring_segment(const Graph& graph, const std::vector<bool>& is_deferred);

// find_dependences() finds which ops must run before others: an op runs after the producers of its operands, and an op that overwrites the
// bytes of a value runs after all readers of that value. Running ops on one stream in the order of Graph::ops() meets these conditions. The
// analysis of liveness and the schedule rely on this.

// A list of positions of ops for each value of a graph, or for each op. One array contains all lists, because a graph has thousands of
// short lists, which every pass needs, and an allocation for each would be slow.
class OpLists {
 public:
  OpLists() = default;
  // `positions` contains the lists one after another, and `ends` contains the index in `positions` at which each list ends.
  OpLists(std::vector<uint32_t> ends, std::vector<uint32_t> positions)
      : ends_(std::move(ends)), positions_(std::move(positions)) {}

  size_t size() const { return ends_.size(); }
  std::span<const uint32_t> operator[](size_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends_[i - 1];
    return {positions_.data() + begin, ends_[i] - begin};
  }

 private:
  std::vector<uint32_t> ends_;
  std::vector<uint32_t> positions_;
};

// For each op: the ops that must have finished before it starts, and the ops that must wait for it.
// Each list is in increasing order and contains no op twice.
struct Dependences {
  OpLists before;
  OpLists after;
};
Dependences find_dependences(const Graph& graph);

// Returns the ops that read each value, in increasing order.
OpLists find_readers(const Graph& graph);

// Kinds of ops in a graph. Two ops are of one kind if they have the same definition, the same attributes and the same types of
// operands and results, whatever their values are called. All ops of one kind have the same kernel, and for each size of batches
// the same estimated time. Layers repeat each other, so there are far fewer kinds than ops. A pure function; thread-safe.

struct OpKinds {
  std::vector<uint32_t> of_op;     // the kind of each op
  std::vector<uint32_t> first_op;  // the position of the first op of each kind; ascending
};

// Returns the kinds in the order of their first ops.
OpKinds find_op_kinds(const Graph& graph);

// The sizes for which a program is compiled (a bucket) can have more rows than a batch has tokens. The rows after the last token are called
// tail rows. This analysis finds what they contain, and refuses a program in which a reduction would read tail rows that are not zero.

// Returns for every value what its tail rows contain (Tail in graph/ops/op.h). Errors: kInternal naming the op and the operand by which the
// op would sum over tail rows that are not zero.
std::vector<Tail> find_tails(const Graph& graph);

}  // namespace plimsoll
