// The plan: everything that a run will do and hold, before anything is allocated. Pure data; the same on every machine
// for the same request. The executor obeys it and adds nothing.
//
// There is one arena per memory space: the device's, and the host's for values that a run stores there. A plan may also
// keep persistent buffers in a file on a disk, from whose start their offsets count. An arena
// begins with buffers that live across programs (weights, optimizer states, accumulated gradients, inputs and
// outputs). One region follows that all programs use in turn; it is as large as the largest of them needs. Offsets
// are valid for every bucket, because no value grows when its bucket shrinks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/compile/graphs.h"
#include "plan/compile/plan_request.h"
#include "plan/compile/program_plan.h"
#include "plan/compile/schedule.h"
#include "plan/layout/layout.h"

namespace plimsoll {

struct PersistentBuffer {
  std::string name = {};
  Storage storage = Storage::kWeight;
  ValueType type = {};
  int64_t offset = 0;
  int64_t bytes = 0;
  std::string module = {};
  Space space = Space::kDevice;
  InputRule input = {};  // set if the value is an input
  // `split` is set if the ranks of a tensor-parallel group divide the value into parts. `divided` is set if the data-parallel ranks divide
  // the value, or the part of it that a tensor-parallel rank has, into slices. `type` is the type of the whole value.
  std::optional<RankSlices> divided = {};
  SharedOptional<TensorSplit> split = {};

  bool is_whole() const { return !divided && !split; }
  // Return the number of elements of the whole value, and the number that each rank stores. Requires: they do not depend on the bucket.
  int64_t whole_elements() const { return type.shape.elements({}); }
  int64_t elements() const { return divided ? divided->size(part_elements()) : part_elements(); }
  // Returns the number of elements of the part of a tensor-parallel rank, including padding; of the whole value if there are no parts.
  int64_t part_elements() const { return split ? split->elements() : whole_elements(); }
};

// The segments of a program that are captured for replay; each is a CUDA graph.
struct CapturedGraphs {
  int64_t count = 0;
  int64_t bytes = 0;
  friend bool operator==(const CapturedGraphs&, const CapturedGraphs&) = default;
};

// The largest amount of GPU memory that a process holds outside its arena. captured_graphs() computes `graphs`.
struct GpuConstant {
  int64_t context_bytes = 0;  // CUDA context, modules and library handles: GpuTarget::constant_bytes
  std::map<std::string, CapturedGraphs, std::less<>> graphs = {};  // the graphs of each program, by its name
  int64_t communicator_bytes = 0;  // of NCCL, or to map the memory of other GPUs; 0 for one rank
  // Returns the graphs of one program; CapturedGraphs{} if it has none.
  CapturedGraphs graphs_of(std::string_view program) const;
  int64_t graph_bytes() const;
  int64_t graph_count() const;
  int64_t total() const { return context_bytes + graph_bytes() + communicator_bytes; }
  friend bool operator==(const GpuConstant&, const GpuConstant&) = default;
};

// The value of an optimizer state before the first step, if it is not zero.
struct InitialState {
  std::string name = {};
  double value = 0;
};

// The persistent buffer, on a GPU, that receives the next batch while the previous one runs. It has room for every input, in the order of
// the inputs, and is placed before the inputs in the arena.
inline constexpr std::string_view kStagedInputs = "staged_inputs";

// A weight and the 16-bit copy of it that matrix products read. Both are persistent buffers.
struct WeightCopy {
  std::string weight = {};
  std::string copy = {};
};

// An fp32 weight that is stored in two persistent buffers (base/split_f32.h). Matrix products read the upper half.
struct SplitWeight {
  std::string high = {};       // bf16, in the weight's shape
  std::string remainder = {};  // u8, two bytes per element
};

// A computation of a stage of a pipeline, or a value that it sends or receives: data for the simulation of a step (stage_plan.h).
struct StageAction {
  enum class Kind : uint8_t { kCompute, kSend, kReceive };
  Kind kind = Kind::kCompute;
  int64_t chunk = 0;  // the chunk of this stage to which the action belongs
  int64_t peer = 0;   // the stage to which a value is sent, or from which it is received
  int64_t channel =
      0;  // values that are sent through different channels do not wait for one another (graph/ops/chunk.h)
  std::string value = {};  // the name of the value that is sent or received
  int64_t bytes = 0;
  int64_t offset =
      0;  // kSend: the offset in the arena of this stage at which the value stays until it has arrived
  double ms = 0;  // time of the computation or of the transfer
  friend bool operator==(const StageAction&, const StageAction&) = default;
};

// A collective operation of the stages of a pipeline: where its tensor begins in the arena of this stage.
struct StageExchange {
  MeshAxis axis = MeshAxis::kPipeline;
  int64_t offset = 0;
};

// A chunk of neighbouring layers of a stage with several of them.
struct StageChunk {
  int64_t first_block = 0, num_blocks = 0;
  int64_t num_slots = 1;  // the largest number of micro-batches that the chunk holds at once
  int64_t slot_bytes = 0;
};

// A stage of a pipeline, as far as other stages and reports need to know it.
struct StagePlan {
  int64_t first_block = 0, num_blocks = 0;     // the layers of the stage, or of its first chunk
  std::vector<StageChunk> chunks = {};         // empty if the stage has one chunk
  std::vector<PersistentBuffer> tensors = {};  // the weights and optimizer states of the stage
  std::map<std::string, SplitWeight> split_weights = {};
  int64_t num_slots = 1;  // ProgramPlan::num_slots of the training program
  int64_t slot_bytes = 0;
  int64_t saved_bytes = 0;  // values saved for the backward pass, of all micro-batches that the stage holds
  int64_t arena_bytes = 0;
  int64_t total_bytes = 0;
  // The actions of the segments of the training program, and of the forward segment of the evaluation program.
  std::array<std::vector<StageAction>, kNumSegments> train = {};
  std::vector<StageAction> evaluate = {};
  std::vector<StageExchange> exchanges = {};  // those of the training program, in the order of its ops
  std::vector<ScheduleEntry> step_schedule = {};
};

struct Plan {
  PlanRequest request = {};
  WeightList weights = {};
  std::vector<WeightCopy> weight_copies = {};  // valid after loading and after each update
  std::map<std::string, SplitWeight> split_weights =
      {};  // key: the name of the weight, which is not a buffer itself
  std::vector<InitialState> initial_states = {};
  std::vector<PersistentBuffer> persistent = {};
  std::unordered_map<std::string, size_t> persistent_by_name = {};
  int64_t persistent_bytes = 0;  // bytes of persistent buffers, after which the transient region begins
  Programs programs = {};
  std::vector<ScheduleEntry> step_schedule = {};  // the schedule of an optimizer step; empty without training
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;  // persistent_bytes plus the lower bound of the larger program
  int64_t host_persistent_bytes =
      0;  // as persistent_bytes, for the arena in host memory; zero if nothing is stored there
  int64_t host_arena_bytes = 0;
  int64_t host_lower_bound_bytes = 0;
  int64_t disk_bytes = 0;         // the size of the file; zero if nothing is stored on a disk
  HostMemory host = {};           // as requested, plus what the libraries of the chosen kernels may allocate
  GpuConstant gpu_constant = {};  // zero on a CPU
  double build_ms = 0;
  std::vector<StagePlan> stages = {};  // all stages of a pipeline, this one included; empty without one

  bool is_pipelined() const { return !stages.empty(); }
  // owner_of() returns the first pipeline stage that stores a weight, an optimizer state or a half of a split weight, or -1 if none does.
  // tensor_of_stages() returns the buffer in that stage, or null.
  int64_t owner_of(const std::string& name) const;
  const PersistentBuffer* tensor_of_stages(const std::string& name) const;
  // Returns the names of the optimizer states of the run, in a pipeline those of all stages.
  std::vector<std::string> state_names() const;
  // Returns true if this plan has a buffer of this name, or both halves of the weight.
  bool has_tensor(const std::string& name) const {
    return persistent_by_name.contains(name) || split_weights.contains(name);
  }
  // Returns true if gradients are computed from a scaled loss: the program has the outputs "used_loss_scale" and
  // "skipped_steps".
  bool scales_loss() const { return request.train && request.precision.activation_dtype == DType::kF16; }
  bool trains() const { return programs.contains(kTrainProgram); }
  bool is_on_gpu() const { return request.device.kind == KernelDevice::kCuda; }
  // Returns the bytes that the process holds outside the arena: on a GPU in the memory of the GPU, on a CPU in host memory.
  int64_t constant_bytes() const { return is_on_gpu() ? gpu_constant.total() : host.total(); }
  // Returns the bytes that the device reports as used: memory of the process on a CPU, memory of the GPU on a GPU.
  int64_t total_bytes() const { return arena_bytes + constant_bytes(); }
  // Returns true if the plan is within the request's limit, or the request has none.
  bool fits() const { return !request.memory_limit_bytes || total_bytes() <= *request.memory_limit_bytes; }
  // Returns the bytes that the process holds in the machine's memory.
  int64_t host_bytes() const {
    return (is_on_gpu() ? host.total() + staging_bytes() : total_bytes()) + host_arena_bytes;
  }
  int64_t arena_bytes_of(Space space) const {
    return space == Space::kDevice ? arena_bytes : space == Space::kHost ? host_arena_bytes : disk_bytes;
  }
  // Returns the bytes of the buffers that host and device exchange at every run of a program. On a GPU, pinned memory
  // contains a second copy of each.
  int64_t staging_bytes() const;
  const PersistentBuffer& buffer(const std::string& name) const;
  // Returns the type of a persistent buffer; for a split weight, fp32 in the weight's shape.
  ValueType type_of(const std::string& name) const;
  int64_t num_parameters() const;
  int64_t num_trainable_parameters() const;
};

// Builds the plan. If values that are transferred early, or stay on the device, exceed the request's limit, it builds the plan that needs
// the least memory, whether that fits or not, and records this in the request of the plan. Pure: allocates no memory of the run and does
// not query the machine. Errors: kUsage for a combination of settings that is refused by name. Cost: milliseconds (BERT-large: under 100).
Plan build_plan(const PlanRequest& request);

// Completes a plan: kernels, liveness and offsets for the buckets of `request`. The order of ops and the chunks of logits are taken from
// the graphs, although build_graphs() might choose others for these buckets: a search confirms its answers with build_plan(). Requires:
// graphs of a request that differs from this one only in sizes of buckets and memory limits, and accumulates if this one does. Errors: as
// build_plan(). Cost: some milliseconds; to place the same graphs often, use placer.h.
Plan place_plan(const PlanRequest& request, PlanGraphs graphs);
// Builds the plan as build_plan() does, from the graphs that `graphs_of` makes for a request.
Plan plan_within_limit(const PlanRequest& request,
                       const std::function<PlanGraphs(const PlanRequest&)>& graphs_of);

// Returns the largest number of CUDA graphs of each program that a GPU holds at one time, and their bytes;
// context_bytes is 0. The result is exact if all graphs of the run together do not exceed the limit kMaxCapturedSegments, and an upper
// bound otherwise. Requires: the plan's programs have their ladders. Cost: one look at every op.
GpuConstant captured_graphs(const Plan& plan);

}  // namespace plimsoll
