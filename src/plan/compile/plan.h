// The plan: everything that a run will do and hold, before anything is allocated. It is plain data and the same on every machine for the
// same request. The executor carries it out and makes no decisions about memory of its own.
//
// There is one arena (a single block of memory) in device memory, and one in host memory if a run stores values
// there. A plan may also keep persistent buffers in a file on a disk; their offsets count from the start of the file.
// An arena begins with buffers that live across programs (weights, optimizer states, accumulated gradients, inputs
// and outputs). They are followed by one region that all programs use in turn, and that is as large as the largest of
// them needs. Offsets are valid for every bucket (batch size), because no value is larger in a smaller bucket.
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
  InputRule input = {};  // how the host fills the buffer, if it is an input
  // `split` is set if the ranks of a tensor-parallel group divide the value into parts. `divided` is set if the data-parallel ranks divide
  // the value into slices. If both are set, the data-parallel ranks that have the same part divide this part into slices. `type` is the
  // type of the whole value.
  std::optional<RankSlices> divided = {};
  SharedOptional<TensorSplit> split = {};

  bool is_whole() const { return !divided && !split; }
  // Return the number of elements of the whole value, and the number of elements that each rank stores. Requires: these numbers do not
  // depend on the batch size.
  int64_t whole_elements() const { return type.shape.elements({}); }
  int64_t elements() const { return divided ? divided->size(part_elements()) : part_elements(); }
  // Returns the number of elements of a tensor-parallel rank's part, including padding, or of the whole value if it has no parts.
  int64_t part_elements() const { return split ? split->elements() : whole_elements(); }
};

// The CUDA graphs of a program, of which a GPU captures one per segment (forward, backward, optimizer) and replays it.
struct CapturedGraphs {
  int64_t count = 0;
  int64_t bytes = 0;
  friend bool operator==(const CapturedGraphs&, const CapturedGraphs&) = default;
};

// The largest amount of GPU memory that a process holds outside its arena. captured_graphs() computes `graphs`.
struct GpuConstant {
  // memory of the CUDA context, modules and library handles: GpuTarget::constant_bytes
  int64_t context_bytes = 0;
  // the CUDA graphs of each program, by the program's name
  std::map<std::string, CapturedGraphs, std::less<>> graphs = {};
  // memory of NCCL, or for mapping the memory of other GPUs; 0 if there is one rank
  int64_t communicator_bytes = 0;
  // Returns the CUDA graphs of one program, or an empty CapturedGraphs if it has none.
  CapturedGraphs graphs_of(std::string_view program) const;
  int64_t graph_bytes() const;
  int64_t graph_count() const;
  int64_t total() const { return context_bytes + graph_bytes() + communicator_bytes; }
  friend bool operator==(const GpuConstant&, const GpuConstant&) = default;
};

// An optimizer state that does not start at zero, and the value of its elements before the first step.
struct InitialState {
  std::string name = {};
  double value = 0;
};

// The name of the persistent buffer on a GPU into which the next batch is copied while the previous one is computed. The buffer has room
// for all inputs of a batch, in their order, and precedes them in the arena.
inline constexpr std::string_view kStagedInputs = "staged_inputs";

// A weight and the 16-bit copy of it that matrix products read. Both are persistent buffers.
struct WeightCopy {
  std::string weight = {};
  std::string copy = {};
};

// An fp32 weight that is stored in two persistent buffers (base/split_f32.h). Matrix products read the upper half.
struct SplitWeight {
  std::string high = {};       // the weight rounded to bf16, in the shape of the weight
  std::string remainder = {};  // the remainder, as two bytes (u8) per element
};

// One action of a pipeline stage: it computes, sends a value or receives one. The simulation of a step executes these actions
// (stage_plan.h).
struct StageAction {
  enum class Kind : uint8_t { kCompute, kSend, kReceive };
  Kind kind = Kind::kCompute;
  int64_t chunk = 0;  // the chunk of layers of this stage to which the action belongs
  int64_t peer = 0;   // the stage to which a value is sent, or from which it is received
  // Number of the channel: values that are sent through different channels do not wait for one another (graph/ops/chunk.h).
  int64_t channel = 0;
  std::string value = {};  // name of the value that is sent or received
  int64_t bytes = 0;
  // For kSend: the offset in this stage's arena of the buffer that keeps the value until it has arrived.
  int64_t offset = 0;
  double ms = 0;  // estimated time of the computation or of the transfer
  friend bool operator==(const StageAction&, const StageAction&) = default;
};

// A collective operation between pipeline stages: the ranks that take part, and the offset of its tensor in the arena of this stage.
struct StageExchange {
  MeshAxis axis = MeshAxis::kPipeline;
  int64_t offset = 0;
};

// A chunk of neighbouring layers, for stages that have several chunks (interleaved schedule).
struct StageChunk {
  int64_t first_block = 0, num_blocks = 0;
  int64_t num_slots = 1;  // the largest number of micro-batches whose activations the chunk stores at once
  int64_t slot_bytes = 0;
};

// The properties of a pipeline stage that the plans of other stages and the reports need.
struct StagePlan {
  // the layers of the stage; if it has several chunks, those of the first
  int64_t first_block = 0, num_blocks = 0;
  std::vector<StageChunk> chunks = {};         // the chunks of the stage; empty if it has only one
  std::vector<PersistentBuffer> tensors = {};  // weights and optimizer states that the stage stores
  std::map<std::string, SplitWeight> split_weights = {};
  int64_t num_slots = 1;  // same as ProgramPlan::num_slots of the training program
  int64_t slot_bytes = 0;
  // Bytes of the values saved for the backward pass, summed over all micro-batches that the stage holds at the same time.
  int64_t saved_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t total_bytes = 0;
  // The computations, sends and receives of the stage in each segment (forward, backward, optimizer) of the training program, and in the
  // forward segment of the evaluation program.
  std::array<std::vector<StageAction>, kNumSegments> train = {};
  std::vector<StageAction> evaluate = {};
  // collective operations between stages in the training program, in the order of its ops
  std::vector<StageExchange> exchanges = {};
  std::vector<ScheduleEntry> step_schedule = {};
};

struct Plan {
  PlanRequest request = {};
  WeightList weights = {};
  // 16-bit copies of weights; valid after loading and after each update
  std::vector<WeightCopy> weight_copies = {};
  // The weights that are stored in two buffers each, by the name of the weight. Neither buffer has this name.
  std::map<std::string, SplitWeight> split_weights = {};
  std::vector<InitialState> initial_states = {};
  std::vector<PersistentBuffer> persistent = {};
  std::unordered_map<std::string, size_t> persistent_by_name = {};
  int64_t persistent_bytes = 0;  // size of the persistent buffers; the transient region follows them
  Programs programs = {};
  // the order in which the forward, backward and optimizer segments of a step run; empty without training
  std::vector<ScheduleEntry> step_schedule = {};
  int64_t arena_bytes = 0;
  // lower bound of arena_bytes: persistent_bytes plus the largest lower bound of the transient bytes of a program
  int64_t lower_bound_bytes = 0;
  // like persistent_bytes, for the arena in host memory; zero if nothing is stored there
  int64_t host_persistent_bytes = 0;
  int64_t host_arena_bytes = 0;
  int64_t host_lower_bound_bytes = 0;
  int64_t disk_bytes = 0;  // size of the file on the disk; zero if nothing is stored there
  // host memory of the request, plus what libraries of the chosen kernels may allocate
  HostMemory host = {};
  GpuConstant gpu_constant = {};  // GPU memory outside the arena; all zero on a CPU
  double build_ms = 0;
  // all stages of a pipeline, including this one; empty without a pipeline
  std::vector<StagePlan> stages = {};

  bool is_pipelined() const { return !stages.empty(); }
  // owner_of() returns the first pipeline stage that stores the weight, optimizer state or half of a split weight with this name, or -1 if
  // no stage stores it. tensor_of_stages() returns its buffer in that stage, or null.
  int64_t owner_of(const std::string& name) const;
  const PersistentBuffer* tensor_of_stages(const std::string& name) const;
  // Returns the names of all optimizer states of the run, in a pipeline those of all stages.
  std::vector<std::string> state_names() const;
  // Returns true if this plan has a buffer of this name or, for a split weight, the buffers of both halves.
  bool has_tensor(const std::string& name) const {
    return persistent_by_name.contains(name) || split_weights.contains(name);
  }
  // Returns true if training uses loss scaling. The program then has the outputs "used_loss_scale" and "skipped_steps".
  bool scales_loss() const { return request.train && request.precision.activation_dtype == DType::kF16; }
  bool trains() const { return programs.contains(kTrainProgram); }
  bool is_on_gpu() const { return request.device.kind == KernelDevice::kCuda; }
  // Returns the bytes that the process uses outside the arena, in the memory of the GPU or, on a CPU, in host memory.
  int64_t constant_bytes() const { return is_on_gpu() ? gpu_constant.total() : host.total(); }
  // Returns the bytes of memory that the run needs on the device, arena included: memory of the process on a CPU, memory of the GPU on a
  // GPU.
  int64_t total_bytes() const { return arena_bytes + constant_bytes(); }
  // Returns true if the plan is within the memory limit of the request, or the request has none.
  bool fits() const { return !request.memory_limit_bytes || total_bytes() <= *request.memory_limit_bytes; }
  // Returns the bytes of host memory that the process uses.
  int64_t host_bytes() const {
    return (is_on_gpu() ? host.total() + staging_bytes() : total_bytes()) + host_arena_bytes;
  }
  int64_t arena_bytes_of(Space space) const {
    return space == Space::kDevice ? arena_bytes : space == Space::kHost ? host_arena_bytes : disk_bytes;
  }
  // Returns the bytes of the input and output buffers, which are copied between host and device in every run of a program. On a GPU,
  // pinned host memory contains a second copy of each.
  int64_t staging_bytes() const;
  const PersistentBuffer& buffer(const std::string& name) const;
  // Returns the type of a persistent buffer. For a split weight, this is fp32 in the weight's shape.
  ValueType type_of(const std::string& name) const;
  int64_t num_parameters() const;
  int64_t num_trainable_parameters() const;
};

// Builds the plan. With offloading, unused memory is used to transfer values early or to keep them on the device. If the plan then exceeds
// the memory limit, the function instead builds the plan that needs the least memory, even if that does not fit either, and records this in
// the request of the plan. Pure: it allocates no memory for the run and does not query the machine. Errors: kUsage for settings that cannot
// be combined; the message names them. Cost: milliseconds (BERT-large: under 100).
Plan build_plan(const PlanRequest& request);

// Makes a plan from graphs: adds kernels, lifetimes and offsets for the buckets (batch sizes) of `request`. It keeps the order of ops and
// the chunks of logits of the graphs. build_graphs() might choose others for these buckets, so a search confirms its results with
// build_plan(). Requires: graphs of a request that differs from this one only in sizes of buckets and memory limits, and accumulates
// gradients if this one does. Errors: as build_plan(). Cost: some milliseconds; to place the same graphs often, use placer.h.
Plan place_plan(const PlanRequest& request, PlanGraphs graphs);
// Builds the plan as build_plan() does, but calls `graphs_of` to get the graphs of a request.
Plan plan_within_limit(const PlanRequest& request,
                       const std::function<PlanGraphs(const PlanRequest&)>& graphs_of);

// Returns the largest number of CUDA graphs of each program that a GPU holds at one time, and their bytes; context_bytes is 0. The result
// is exact if all graphs of the run together do not exceed the limit kMaxCapturedSegments, and an upper bound otherwise. Requires: the
// ladder (list of batch sizes) of each program is set. Cost: linear in the number of ops.
GpuConstant captured_graphs(const Plan& plan);

}  // namespace plimsoll
