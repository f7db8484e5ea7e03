#include "plan/compile/plan.h"

#include <algorithm>
#include <initializer_list>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// GPU memory of a CUDA graph per op. Measured on an H200: 2.0 to 2.4 MiB for the 610 ops of BERT-large and one batch size, as the
// difference of the used memory that NVML reports for a run with and a run without CUDA graphs.
constexpr int64_t kGraphBytesPerOp = 4096;
// Returns the number of additional kernel launches of norm_linear if the norm, the matrix product and the activation are launched
// separately instead of in one kernel. A bias whose type differs from the type of the product needs one more launch
// (norm_linear_cuda.cc).
int64_t launches_after_norm(const OpView& op) {
  const bool has_end = NormLinearOp::end(op.attributes()) != LayerEnd::kProduct;
  const bool adds_bias = op.has_input(NormLinearOp::kBias) &&
                         op.input(NormLinearOp::kBias).type.dtype != op.output(NormLinearOp::kY).type.dtype;
  return 1 + (has_end ? 1 : 0) + (adds_bias ? 1 : 0);
}

// Returns the number of kernels that an op launches in addition to the first one. The gradient of an embedding table that is computed some
// rows at a time launches one kernel for partial sums and one for the sums per id. A fused linear layer and norm launches a second kernel
// that clears its sums, or that computes the norm. A quantization to fp8 clears the largest magnitude, finds it, and computes the codes; if
// the magnitude is known, it launches only one kernel.
int64_t extra_launches(const OpView& view) {
  const Op& op = view.op;
  if (op.def == &norm_linear_op()) return launches_after_norm(view);
  if (op.def == &quantize_fp8_op() && op.inputs[QuantizeFp8Op::kKnown] == kNoValue) return 2;
  const bool has_two =
      (op.def == &embedding_bwd_op() && op.attributes.has("first_row")) || op.def == &linear_norm_op();
  return has_two ? 1 : 0;
}

// Returns the number of nodes of an op in a CUDA graph. A copy has one node per copied value. Sending a value to another rank consists of
// a wait, a copy, and a write that signals the other rank.
int64_t nodes_of(const OpView& view) {
  if (view.op.def == &send_op() || view.op.def == &receive_op()) return 3;
  int64_t nodes = view.op.def == &copy_op() ? std::ssize(view.op.outputs) : 1;
  if (maps_peers(view.op.attributes)) {
    // To exchange attention heads for tokens, a rank copies up to three blocks of a matrix from every rank, and waits for the others twice.
    if (view.op.def == &exchange_heads_op()) {
      const int64_t parts = view.op.attributes.integer("others") > 0 ? 3 : 1;
      return parts * view.op.attributes.integer("ranks") + 6;
    }
    // In a collective operation, each rank copies a slice of every tensor from every other rank; all_reduce does so twice. For
    // all_gather, the rank also copies its own slice, which is in separate memory. The remaining nodes wait for the other ranks, two or
    // three times, and add the slices.
    const int64_t copies = AllReduceOp::num_ranks(view.op.attributes) -
                           (view.op.def == &all_gather_op() || view.op.def == &gather_rows_op() ? 0 : 1);
    nodes = (view.op.def == &all_reduce_op() ? 2 : 1) * copies * std::ssize(view.op.outputs) + 6;
  }
  return nodes + extra_launches(view);
}

// The number of kernels that copy inputs to the GPU and outputs to the host, if the graph of a program includes them: two ranges of inputs
// and one of outputs (ExecutorBackend::run_and_fetch).
constexpr int64_t kCopyNodes = 3;

// Segments that run one after the other for the same batch size, so their CUDA graphs are captured, replayed and dropped together.
struct SegmentGroup {
  CapturedGraphs* held = nullptr;
  // The number of buckets (batch sizes) for which the segments are captured. In a pipeline, this is multiplied by the number of slots,
  // because each slot (the memory of one micro-batch) has graphs with its own addresses.
  int64_t num_buckets = 0;
  int64_t num_graphs = 0;  // number of CUDA graphs per bucket
  int64_t nodes = 0;       // number of nodes in all graphs of one bucket
  double nodes_per_graph() const { return static_cast<double>(nodes) / static_cast<double>(num_graphs); }
};

// Adds the segments that run once per micro-batch, or those that run once per step, as one group. A pipeline stage captures the segments
// of a micro-batch once for each slot.
void add_group(const ProgramPlan& program, std::initializer_list<Segment> segments, int buckets,
               CapturedGraphs& held, std::vector<SegmentGroup>& groups) {
  SegmentGroup group{.held = &held, .num_buckets = std::min<int64_t>(buckets, std::ssize(program.ladder))};
  if (*segments.begin() == Segment::kForward) group.num_buckets *= program.num_slots;
  const auto is_one = [&](Segment segment) {
    return std::ranges::find(segments, segment) != segments.end() && program.is_captured(segment);
  };
  group.num_graphs = std::ranges::count_if(segments, is_one);
  for (const Op& op : program.graph.ops()) {
    if (is_one(op.segment)) group.nodes += nodes_of({program.graph, op});
  }
  if (group.num_graphs > 0) groups.push_back(group);
}

std::vector<SegmentGroup> groups_of(const Plan& plan, GpuConstant& held) {
  std::vector<SegmentGroup> groups;
  const CapturedBuckets& buckets = plan.request.captured_buckets;
  const ProgramPlan* train = plan.programs.find(kTrainProgram);
  if (train != nullptr && plan.request.batches.accumulation_steps == 1) {
    add_group(*train, {Segment::kForward, Segment::kBackward, Segment::kOptimizer}, buckets.train,
              held.graphs[train->name], groups);
  } else if (train != nullptr) {
    add_group(*train, {Segment::kForward, Segment::kBackward}, buckets.train, held.graphs[train->name],
              groups);
    add_group(*train, {Segment::kOptimizer}, std::min(buckets.train, buckets.update),
              held.graphs[train->name], groups);
  }
  if (const ProgramPlan* evaluate = plan.programs.find(kEvaluateProgram)) {
    add_group(*evaluate, {Segment::kForward}, buckets.evaluate, held.graphs[evaluate->name], groups);
  }
  if (const ProgramPlan* generate = plan.programs.find(kGenerateProgram)) {
    add_group(*generate, {Segment::kForward}, static_cast<int>(generate->ladder.size()),
              held.graphs[generate->name], groups);
    if (generate->is_captured(Segment::kForward)) groups.back().nodes += kCopyNodes;
  }
  return groups;
}

int64_t count_of(const std::vector<SegmentGroup>& groups) {
  int64_t count = 0;
  for (const SegmentGroup& group : groups) count += group.num_buckets * group.num_graphs;
  return count;
}

void hold(SegmentGroup& group, int64_t buckets) {
  group.held->count += buckets * group.num_graphs;
  group.held->bytes += buckets * group.nodes * kGraphBytesPerOp;
  group.num_buckets -= buckets;
}

// Computes an upper bound of the memory of CUDA graphs for a run that has more graphs than may exist at the same time
// (kMaxCapturedSegments). It assumes that the graphs with the most nodes exist. Graphs are dropped one by one, so of two buckets (batch
// sizes) only some graphs may exist: the least recently used bucket has lost its first graphs, and the current one has not captured its
// last graphs yet. Therefore, for each group of several segments, the function first adds the bytes of all graphs of two buckets, but
// counts each of these buckets as only one of the permitted graphs.
void hold_at_most(const Programs& programs, std::vector<SegmentGroup>& groups, GpuConstant& held) {
  int64_t room = kMaxCapturedSegments;
  for (SegmentGroup& group : groups) {
    if (group.num_graphs == 1) continue;
    const int64_t in_part = std::min<int64_t>(2, group.num_buckets);
    hold(group, in_part);
    room -= in_part;
  }
  std::ranges::stable_sort(groups, std::ranges::greater(), &SegmentGroup::nodes_per_graph);
  for (SegmentGroup& group : groups) {
    const int64_t most = (room + group.num_graphs - 1) / group.num_graphs;
    const int64_t buckets = std::min(group.num_buckets, most);
    hold(group, buckets);
    room = std::max<int64_t>(0, room - buckets * group.num_graphs);
  }
  int64_t left = kMaxCapturedSegments;
  for (const ProgramPlan& program : programs) {
    CapturedGraphs& graphs = held.graphs[program.name];
    graphs.count = std::min(graphs.count, left);
    left -= graphs.count;
  }
}

}  // namespace

GpuConstant captured_graphs(const Plan& plan) {
  GpuConstant held;
  std::vector<SegmentGroup> groups = groups_of(plan, held);
  if (count_of(groups) > kMaxCapturedSegments) {
    hold_at_most(plan.programs, groups, held);
    return held;
  }
  for (SegmentGroup& group : groups) hold(group, group.num_buckets);
  return held;
}

}  // namespace plimsoll
