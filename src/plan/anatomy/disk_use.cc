#include "plan/anatomy/disk_use.h"

#include <algorithm>
#include <vector>

#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

bool reads_disk(const Graph& graph, const Op& op) {
  return op.def == &copy_op() && graph.value(op.inputs[CopyOp::kFrom]).space == Space::kDisk;
}

bool writes_disk(const Graph& graph, const Op& op) {
  return op.def == &copy_op() && graph.value(op.outputs[CopyOp::kTo]).space == Space::kDisk;
}

// Returns true for states that a copy read from the disk, and for the buffers of a copy.
bool is_staging(const ProgramPlan& program, const TransientBuffer& buffer) {
  const Graph& graph = program.graph;
  if (buffer.root == kNoValue) {
    const Op& op = graph.ops()[buffer.op];
    return reads_disk(graph, op) || writes_disk(graph, op);
  }
  const OpId producer = graph.value(buffer.root).producer;
  return producer != kNoOp && reads_disk(graph, graph.op(producer));
}

int64_t most_staging_bytes(const ProgramPlan& program) {
  std::vector<int64_t> change(program.graph.ops().size() + 1, 0);
  for (const TransientBuffer& buffer : program.buffers) {
    if (!is_staging(program, buffer)) continue;
    change[buffer.first] += buffer.bytes;
    change[buffer.last + 1] -= buffer.bytes;
  }
  int64_t bytes = 0, most = 0;
  for (const int64_t step : change) most = std::max(most, bytes += step);
  return most;
}

}  // namespace

DiskUse disk_use(const Plan& plan) {
  DiskUse use{.stored_bytes = plan.disk_bytes};
  if (plan.disk_bytes == 0) return use;
  const ProgramPlan& train = plan.programs.at(kTrainProgram);
  for (const Op& op : train.graph.ops()) {
    const bool reads = reads_disk(train.graph, op);
    if (!reads && !writes_disk(train.graph, op)) continue;
    // A copy moves the bytes of the operand on the device, which may be a slice of the value on the disk.
    int64_t bytes = 0;
    for (size_t i = 0; i < op.outputs.size(); ++i)
      bytes += train.graph.value(reads ? op.outputs[i] : op.inputs[i]).bytes(train.bucket);
    (reads ? use.read_bytes : use.written_bytes) += bytes;
  }
  use.staging_bytes = most_staging_bytes(train);
  use.ms = static_cast<double>(use.read_bytes + use.written_bytes) / (1e6 * plan.request.disk.both_gb_per_s);
  return use;
}

}  // namespace plimsoll
