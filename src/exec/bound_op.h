// An op that is ready to run: its kernel with every address and size filled in. Preparing an op for running (binding) may allocate memory;
// running it may not.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/philox.h"
#include "base/view.h"
#include "device/comm/gpu_communicator.h"
#include "exec/arena_map.h"
#include "exec/disk_transfers.h"
#include "graph/ops/op.h"
#include "graph/ops/slice.h"
#include "plan/compile/kernel_choice.h"
#include "plan/compile/plan.h"

namespace plimsoll {

struct BoundOp {
  std::function<void()> run;
  Segment segment = Segment::kForward;
  uint32_t index = 0;  // index of the op in its program
};

// The addresses of the arenas (memory blocks) of the device and of the host, and the file in which
// the plan keeps values on a disk. `disk` is null if the plan keeps no values on a disk.
struct ArenaMaps {
  const ArenaMap& device;
  const ArenaMap& host;
  DiskTransfers* disk = nullptr;
  const ArenaMap& of(Space space) const { return space == Space::kDevice ? device : host; }
};

// The information that is needed to prepare (bind) an op for running: the addresses of its operands, their sizes for one bucket (sizes of a
// batch for which the program is compiled), and the plan.
class BindContext {
 public:
  BindContext(const Plan& plan, const ProgramPlan& program, const Bucket& bucket, ArenaMaps arenas,
              const RankConnections& connections, uint32_t index, int64_t slot = 0)
      : plan_(plan),
        program_(program),
        bucket_(bucket),
        arenas_(arenas),
        connections_(connections),
        index_(index),
        slot_(slot) {}

  const Op& op() const { return program_.graph.ops()[index_]; }
  OpView view() const { return {program_.graph, op()}; }
  const Bucket& bucket() const { return bucket_; }
  const Attributes& attributes() const { return op().attributes; }
  const PlanRequest& request() const { return plan_.request; }
  const Plan& plan() const { return plan_; }
  const Graph& graph() const { return program_.graph; }
  // Returns the position of the op in its program.
  uint32_t index() const { return index_; }
  KernelTarget target() const { return kernel_target(plan_.request); }
  const OpSchema& schema() const { return schema_of(op()); }

  Queue queue() const { return program_.ops[index_].queue; }
  uint32_t queue_end() const { return program_.ops[index_].queue_end; }

  // Returns the object that reads and writes the plan's file on a disk. Errors: kInternal if the plan stores nothing on a disk.
  DiskTransfers& disk() const {
    PLIMSOLL_CHECK(arenas_.disk != nullptr,
                   "the op '{}' reads or writes a disk, but the plan stores nothing on a disk",
                   op().def->name());
    return *arenas_.disk;
  }
  // Returns the address of the first byte of the device's arena.
  std::byte* device_arena() const { return arenas_.device.at(0); }
  // Returns the offset of an operand in the arena of its memory space.
  int64_t offset_of(ValueId id) const { return program_.offsets[index_of(id)]; }

  bool has_input(int i) const { return view().has_input(i); }
  // Returns the operand, or a null view if the operand is absent or has no memory. Inputs and outputs are numbered by the
  // enumerators in graph/ops/ops.h.
  ConstView input(int i) const {
    return i < view().num_inputs() ? place(op().inputs[static_cast<size_t>(i)]) : View{};
  }
  View output(int i) const {
    return i < view().num_outputs() ? place(op().outputs[static_cast<size_t>(i)]) : View{};
  }
  // Returns the input that has this role in the table of the op's operands, or a null view if no input has it.
  ConstView input_with(InputRole role) const;
  // Returns the output that row `row` of the op's operand table describes, or a null view if the op does not have this output. Use it for
  // ops with conditional outputs, whose positions differ from their rows in the table.
  View output_row(int row) const;
  int64_t input_elements(int i) const { return view().in_shape(i).elements(bucket_); }
  int64_t output_elements(int i) const { return view().out_shape(i).elements(bucket_); }
  // Return the size of one dimension of an operand. The size holds for batches of the sizes (bucket) for which the op was prepared.
  int64_t input_size(int i, int dim) const { return view().in_shape(i)[dim].at(bucket_); }
  int64_t output_size(int i, int dim) const { return view().out_shape(i)[dim].at(bucket_); }

  // Returns true if the operand is a weight that no op of this program writes.
  bool is_constant_weight(int i) const;

  // Returns the connections to the other ranks along the mesh axis on which the op exchanges data. Errors: kInternal if they do not exist.
  const AxisConnections& connections() const {
    const MeshAxis axis = mesh_axis_of(attributes());
    const AxisConnections& connections = connections_.of(axis);
    const bool has_one = plan_.is_on_gpu() ? connections.gpus != nullptr || connections.peers != nullptr
                                           : connections.ranks != nullptr;
    PLIMSOLL_CHECK(has_one,
                   "the op '{}' exchanges data with the other ranks on the {} axis of the mesh, but is not "
                   "connected to them",
                   op().def->name(), mesh_axis_name(axis));
    return connections;
  }

  // Returns the communicator between the processes of the ranks along an axis of the mesh, by
  // default the axis of the op. Errors: kInternal if there is none.
  Communicator& communicator() const { return communicator(mesh_axis_of(attributes())); }
  Communicator& communicator(MeshAxis axis) const {
    Communicator* ranks = connections_.of(axis).ranks;
    PLIMSOLL_CHECK(ranks != nullptr,
                   "the op '{}' exchanges data with the other ranks on the {} axis of the mesh, but is not "
                   "connected to them",
                   op().def->name(), mesh_axis_name(axis));
    return *ranks;
  }

  View scratch() const;
  int64_t scratch_bytes() const { return program_.ops[index_].scratch_bytes; }
  std::string_view kernel() const { return program_.ops[index_].kernel->implementation; }
  bool is_reference() const { return program_.ops[index_].kernel->backend == Backend::kRef; }

 private:
  View place(ValueId id) const;

  const Plan& plan_;
  const ProgramPlan& program_;
  Bucket bucket_;
  ArenaMaps arenas_;
  RankConnections connections_;
  uint32_t index_;
  int64_t
      slot_;  // memory slot that stores the activations of this micro-batch in a pipeline, below ProgramPlan::num_slots
};

// Read operands that the host wrote before the run: an integer, and the flag that states whether the op adds to its output or overwrites
// it. An op without this flag overwrites.
inline int64_t read_integer(ConstView view, int64_t i = 0) {
  return view.dtype == DType::kI64 ? view.as<int64_t>()[i] : static_cast<int64_t>(view.as<int32_t>()[i]);
}
inline Accumulate read_flag(ConstView flag) {
  return flag && read_integer(flag) != 0 ? Accumulate::kAdd : Accumulate::kOverwrite;
}
// Combines the seed and the number of the micro-batch, which the host writes, with the op's attribute `site`, which separates its random
// draws from those of other ops. Returns a default value if the op draws no random numbers.
inline RandomSite read_site(ConstView rng, int64_t site) {
  if (!rng) return {};
  return {.seed = static_cast<uint64_t>(read_integer(rng, 0)),
          .step = static_cast<uint32_t>(read_integer(rng, 1)),
          .site = static_cast<uint32_t>(site)};
}

}  // namespace plimsoll
