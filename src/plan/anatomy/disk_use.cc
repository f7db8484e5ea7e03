#include "plan/anatomy/disk_use.h"

#include <algorithm>
#include <vector>

#include "base/disk_transfer.h"
#include "graph/analysis/analysis.h"
#include "graph/analysis/liveness.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

int64_t most_staging_bytes(const ProgramPlan& program) {
  const Graph& graph = program.graph;
  // True for each root (the value that owns the memory) into which an op reads from the disk.
  std::vector<bool> is_staging(graph.values().size(), false);
  for (const Op& op : graph.ops()) {
    if (!reads_disk(graph, op)) continue;
    for (const ValueId id : op.outputs) is_staging[index_of(root_of(graph, id))] = true;
  }
  std::vector<int64_t> change(graph.ops().size() + 1, 0);
  for (const TransientBuffer& buffer : program.buffers) {
    if (buffer.root == kNoValue || !is_staging[index_of(buffer.root)]) continue;
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
    // Counts the bytes of the operand of the copy, which may be only a slice of the value that is stored on the disk.
    int64_t bytes = 0;
    for (size_t i = 0; i < op.outputs.size(); ++i)
      bytes += train.graph.value(reads ? op.outputs[i] : op.inputs[i]).bytes(train.bucket);
    (reads ? use.read_bytes : use.written_bytes) += bytes;
  }
  use.staging_bytes = most_staging_bytes(train);
  use.buffers_bytes = kDiskBuffersBytes;
  use.ms = static_cast<double>(use.read_bytes + use.written_bytes) / (1e6 * plan.request.disk.both_gb_per_s);
  return use;
}

}  // namespace plimsoll
