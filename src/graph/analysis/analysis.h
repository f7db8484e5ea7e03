// Facts about a graph that several passes and the planner need. Each function reads a graph and returns values. Pure functions;
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

// Returns true for every forward op that passes a value to a forward op outside its block or to the host. For an op outside all blocks this
// is true if it passes a value to an op of any block.
std::vector<bool> find_block_ends(const Graph& graph);

// Returns the name of the last block of the forward pass if no later op works on rows of tokens, and an empty name otherwise. The backward
// pass starts with this block, so recomputing its values saves no memory: they would be needed at once.
std::string_view last_block_before_head(const Graph& graph);

// The ops of the backward segment that recompute values of the forward pass (gradient checkpointing). Pure; thread-safe.

// Returns true for every op of the backward segment that depends on no gradient, which are the recomputed ops. The first op of that segment
// creates the gradient of the loss and is not one of them. Requires: the graph verifies. Cost: linear in operands.
std::vector<bool> find_repeated_ops(const Graph& graph);

// Finds the position at which each op of a queue other than kCompute (graph/ops/op.h) must have ended: a copy between memory spaces, or a
// collective operation. The op must have ended before the first of these ops starts:
//  - an op that reads a result, or that lists a result in its operand list `after`, which orders copies;
//  - an op whose output reuses the bytes of an operand or of a result, unless both ops copy different elements of one value;
//  - an op with the attribute `ended` = n, which waits for the first n copies of its segment to the host;
//  - at the latest, the first op of the next segment.
// Until that position no other op may use the bytes that the queued op reads or writes. The analysis of liveness relies on this rule. Pure
// functions; thread-safe.

struct QueuedOp {
  uint32_t op = 0;   // position of the queued op
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

// The ops that a run of a program executes for the previous run: they update weights with gradients that the previous run left on the
// device, or copy optimizer states that it left there back to the host. Values that one run leaves for the next run are called deferred.
// All are in the forward segment. They are skipped if there was no previous run, or if their work is done already. Pure functions;
// thread-safe.

// Returns one entry per op. It is true for ops that read deferred values, for copies of the results of these ops to the host or to a disk,
// and for copies to the device of values that only these ops read.
std::vector<bool> find_deferred_ops(const Graph& graph);

// Returns the last segment (forward, backward or optimizer) in which a run writes a value that deferred ops read. When this segment has
// run, the next run has deferred work. Returns nothing if there are no such ops. `is_deferred` is the result of find_deferred_ops().
std::optional<Segment> find_deferring_segment(const Graph& graph, const std::vector<bool>& is_deferred);

// The order that ops must keep: an op follows the producers of its operands, and an op that writes into the bytes of a value follows all
// readers of that value. This is happens-before between ops that run on one stream in the order of the list; the analyses of liveness and
// schedule build on it.

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

// The ops that must have finished before each op starts, and those that wait for it, without repetition and in
// increasing order.
struct Dependences {
  OpLists before;
  OpLists after;
};
Dependences find_dependences(const Graph& graph);

// Returns the ops that read each value, in increasing order.
OpLists find_readers(const Graph& graph);

// Kinds of ops in a graph. Two ops are of one kind if they have the same definition, the same attributes and the same
// types of operands and results, whatever their values are called. All ops of one kind have the same kernel and the same estimated time in
// any bucket. Layers repeat each other, so there are far fewer kinds than ops. A pure function; thread-safe.

struct OpKinds {
  std::vector<uint32_t> of_op;     // the kind of each op
  std::vector<uint32_t> first_op;  // the position of the first op of each kind; ascending
};

// Returns the kinds in the order of their first ops.
OpKinds find_op_kinds(const Graph& graph);

// Determines for every value of a program what its tail rows contain, which are the rows of a bucket after the last real token. Refuses a
// program in which a reduction would read tail rows that are not zero.

// Returns for every value what its tail rows contain (Tail in graph/ops/op.h). Errors: kInternal naming the op and the operand that would
// read a tail that is not zero.
std::vector<Tail> find_tails(const Graph& graph);

}  // namespace plimsoll
