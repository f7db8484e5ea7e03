// The plan: everything a run will do and hold, before anything is allocated. Pure data; the same on every
// machine for the same request. The executor obeys it and adds nothing.
//
// One arena per memory space: the device's, and the host's for what a run keeps there. An arena begins with
// what lives across programs (weights, optimizer states, gradients that accumulate, inputs and outputs that
// the host exchanges); above lies one region that the programs use in turn, as large as the largest of them.
// Offsets hold for every bucket, because no value grows when its bucket shrinks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/passes/pass.h"
#include "hardware/cpu_calibration.h"
#include "hardware/cpu_isa.h"
#include "hardware/gpu_target.h"
#include "hardware/tuning_table.h"
#include "kernels/catalog/catalog.h"
#include "kernels/matmul/matmul_catalog.h"
#include "models/lora.h"
#include "models/model.h"
#include "optim/optimizer.h"
#include "plan/layout/layout.h"

namespace plimsoll {

// Every buffer in an arena starts at a multiple of this: a cache line, and on a GPU what its copy engines and
// product libraries like best.
constexpr int64_t arena_alignment(KernelDevice device) {
  return device == KernelDevice::kCpu ? 64 : 256;
}
// As many bytes as a buffer takes in an arena.
constexpr int64_t bytes_in_arena(int64_t bytes, KernelDevice device) {
  const int64_t alignment = arena_alignment(device);
  return (bytes + alignment - 1) / alignment * alignment;
}

// What the process holds on the host beside the arena. Bytes.
struct HostMemory {
  int64_t process_bytes = 0;  // program, libraries, their working memory: measured, see target/
  int64_t data_bytes = 0;     // tokenized data, label tables, batches made ahead
  int64_t io_bytes = 0;       // buffers for reading and writing checkpoints
  // What the process held at most, all of it, while data files were read, which was before the arena was
  // taken. Not a part of the total: where it is more than the rest of the run holds, the plan adds the
  // difference to data_bytes.
  int64_t reading_bytes = 0;
  int64_t library_bytes =
      0;  // what a kernel's library allocates by itself while it runs: the plan fills it in
  int64_t total() const { return process_bytes + data_bytes + io_bytes + library_bytes; }
  friend bool operator==(const HostMemory&, const HostMemory&) = default;
};

// A GPU keeps as many segments captured as training has in so many buckets, those of evaluation among them;
// the one that was used the longest ago makes room.
inline constexpr int kMaxCapturedBuckets = 32;
inline constexpr int kMaxCapturedSegments = 3 * kMaxCapturedBuckets;

// In how many buckets a segment runs twice or more in a run: a GPU captures it when it does so for the second
// time.
struct CapturedBuckets {
  int train = kMaxCapturedBuckets;     // forward and backward, with every micro-batch
  int update = kMaxCapturedBuckets;    // optimizer, once a step; where these are more, `train` counts
  int evaluate = kMaxCapturedBuckets;  // of the evaluation program
  friend bool operator==(const CapturedBuckets&, const CapturedBuckets&) = default;
};

// Whether the updates of a run with states on the host run in the next step's forward pass (the pass
// updates_at_use): where a step is estimated to be shorter for it, or wherever that is possible.
enum class UpdatesAtUse : uint8_t { kWhereFaster, kAlways };

// Whether logits of training exist for some rows at a time: where they are larger than kMostLogitsBytes,
// always, never.
enum class ChunkedLoss : uint8_t { kAuto, kAlways, kNever };

struct PlanRequest {
  ModelConfig model;
  std::string model_label;  // what the model is called in tables
  ProblemType problem_type = ProblemType::kSingleLabel;
  double label_smoothing = 0.0;
  // Of weights and, where not stated below, of activations. 16 bits: the weights themselves are
  // rounded.
  DType dtype = DType::kF32;
  // Of gradients of weights that products read in 16 bits; nothing: fp32 where they add up over
  // micro-batches, else the weights' own.
  std::optional<DType> gradient_dtype = {};
  std::optional<DType> activation_dtype = {};  // kBF16: bf16 mixed, fp32 masters; kF16: with loss scaling
  bool train = true;
  bool evaluate = true;
  std::vector<std::string> freeze = {};  // patterns of names of parameters that keep what was loaded
  std::optional<LoraConfig> lora = {};
  OptimizerConfig optimizer;
  int64_t gradient_accumulation_steps = 1;
  Bucket train_bucket;  // the largest batch of this data in this order, or batch x maximum length
  Bucket evaluate_bucket;
  int num_threads = 1;
  CpuIsa isa = CpuIsa::kBaseline;
  CpuCalibration cpu_calibration = {};  // corrects estimates of time on a CPU; empty: none
  KernelDevice device = KernelDevice::kCpu;
  Fp32Products fp32_products = Fp32Products::kF32;           // other than as they are: GPUs only
  int64_t matmul_workspace_bytes = kCublasLtWorkspaceBytes;  // of each product of a GPU's library
  GpuTarget gpu;                                             // where device is kCuda
  TuningTable tuning = {};         // algorithms of products on a GPU; empty: the library's first choices
  bool measures_products = false;  // what the table lacks is measured before the first step
  int gpu_ordinal = 0;             // among the visible ones; no part of what is planned
  bool holds_gpu_driver = false;   // the process has opened it, also where it then runs on a CPU
  CapturedBuckets captured_buckets = {};  // on a GPU: by the run's data and steps, if they are known
  std::string device_label = "cpu";
  bool reference_kernels = false;  // force the plain references
  bool weight_copies = false;      // also where the device's products would round weights on their way
  // 16-bit copies of matrices are made before each product, and live no longer: 2 bytes a parameter less.
  // Weights in two parts, and products that round weights on their way, have no copies.
  bool copies_at_use = false;
  // No two buffers share a place, and a backend takes a block of memory for each: for sanitizers.
  bool separate_buffers = false;
  HostMemory host;
  std::optional<int64_t> memory_limit_bytes;
  std::string memory_limit_label = "--memory_limit";  // what set it, for messages
  // The argument that sets how long sequences are, for messages, and what a smaller value does to the data.
  std::string length_argument = "--max_seq_length";
  std::string shorter_words = "cuts longer texts";
  RecomputeChoice recompute;
  ChunkedLoss chunked_loss = ChunkedLoss::kNever;
  bool optimizer_in_backward = false;  // no clipping, no accumulation
  // Optimizer states, and the parts of weights that only updates read, lie in the host's memory.
  bool offload_optimizer = false;
  // With offload_optimizer: states come to the device before their update needs them, as early as there is
  // room. How much room there is depends on the bucket.
  bool early_states = true;
  UpdatesAtUse updates_at_use = UpdatesAtUse::kWhereFaster;  // with early_states only
  // The most elements of one update with offload_optimizer, and of one piece of an embedding table's gradient
  // that is computed some rows at a time. 2 Mi elements are 16 MiB of AdamW's moments. Copying them in and
  // out takes less time than the backward pass of a layer of BERT-large, which runs beside it; with half as
  // many elements captured programs would take 3 MiB more there, and the peak would be the same.
  int64_t elements_at_once = int64_t{2} << 20;
  // Values that are saved for the backward pass lie in the host's memory until then, if they have at least
  // offload_least_bytes.
  bool offload_activations = false;
  int64_t offload_least_bytes = int64_t{1} << 20;
  // With offload_activations: values for which the device has room below the peak stay there. How much room
  // there is depends on the bucket.
  bool saved_in_room = true;
  // A CPU does each copy at the last moment that the plan allows in place of the first: for tests.
  bool late_copies = false;
  // A CPU does what it is given when somebody waits for it, so that a run trains ahead as on a GPU: for
  // tests.
  bool runs_ahead = false;
  PassOptions passes;
};

// How one op runs.
struct OpPlan {
  const KernelRow* kernel = nullptr;
  std::vector<Refusal> refused = {};    // faster rows that declined, and why
  int64_t scratch_offset = -1;          // from the start of the arena
  int64_t scratch_bytes = 0;            // in the largest bucket
  std::optional<Space> copies_to = {};  // of a copy: it runs beside the ops after it
  uint32_t copy_end = 0;                // and has ended before the op at this position starts
  bool is_deferred = false;             // it does work of the run before, and is skipped if that is done
};

// What a transient buffer is for, in the terms of the anatomy.
enum class Purpose : uint8_t {
  kWeights,
  kOptimizerStates,
  kGradients,
  kSaved,
  kTemporary,
  kFunctionality,
  kStaging,
  kConstant
};
inline constexpr int kNumPurposes = 8;
std::string_view purpose_name(Purpose purpose);

struct TransientBuffer {
  ValueId root = kNoValue;  // kNoValue for scratch
  uint32_t op = 0;          // of scratch
  Purpose purpose = Purpose::kTemporary;
  int64_t offset = 0;  // from the start of the arena
  int64_t bytes = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

// Where the updates of a run with states on the host stand, in the next step's forward pass or where the step
// has them, and how long a step is estimated to take: infinity where there is no such plan.
struct UpdatePlace {
  bool is_at_use = false;
  double at_use_ms = std::numeric_limits<double>::infinity();  // or it takes as long as the other
  double in_step_ms = std::numeric_limits<double>::infinity();
};

struct ProgramPlan {
  std::string name = {};
  Graph graph = Graph();
  Bucket bucket = {};               // the largest
  std::vector<Bucket> ladder = {};  // buckets a batch may run in, smallest first; the last is `bucket`
  // Of each value from the start of its space's arena; -1 for values that get no place.
  std::vector<int64_t> offsets = {};
  std::vector<OpPlan> ops = {};
  std::vector<TransientBuffer> buffers = {};       // on the device
  std::vector<TransientBuffer> host_buffers = {};  // in the host's arena
  int64_t transient_bytes = 0;
  int64_t lower_bound_bytes = 0;  // of transient_bytes
  int64_t host_transient_bytes = 0;
  int64_t host_lower_bound_bytes = 0;
  int64_t library_bytes = 0;  // the most that the library of one of its kernels allocates by itself
  std::vector<PassRecord> passes = {};
  // After this segment of a run, the next run has work for its deferred ops (OpPlan::is_deferred).
  std::optional<Segment> deferred_after = {};
  // Segments that a GPU is given op by op every time: those whose copies carry activations. Others are
  // captured and replayed.
  std::vector<Segment> never_captured = {};
  bool is_captured(Segment segment) const {
    return std::ranges::find(never_captured, segment) == never_captured.end();
  }
  std::optional<UpdatePlace> update_place = {};  // where it was chosen
};

struct PersistentBuffer {
  std::string name = {};
  Storage storage = Storage::kWeight;
  ValueType type = {};
  int64_t offset = 0;
  int64_t bytes = 0;
  std::string module = {};
  Space space = Space::kDevice;
};

// Segments of a program that are captured for replay, each a CUDA graph.
struct CapturedGraphs {
  int64_t count = 0;
  int64_t bytes = 0;
  friend bool operator==(const CapturedGraphs&, const CapturedGraphs&) = default;
};

// What a process holds on a GPU beside its arena, at most at a time. captured_graphs.h counts the graphs.
struct GpuConstant {
  int64_t context_bytes = 0;  // context, modules, handles of libraries: GpuTarget::constant_bytes
  CapturedGraphs train_graphs = {};
  CapturedGraphs evaluate_graphs = {};
  int64_t graph_bytes() const { return train_graphs.bytes + evaluate_graphs.bytes; }
  int64_t total() const { return context_bytes + graph_bytes(); }
  friend bool operator==(const GpuConstant&, const GpuConstant&) = default;
};

// A run of a segment: the step schedule says which segments run, how often and in which order.
struct ScheduleEntry {
  Segment segment = Segment::kForward;
  bool per_micro_batch = true;
};

// What an optimizer state holds before the first step, where that is not zero.
struct InitialState {
  std::string name = {};
  double value = 0;
};

// On a GPU, where the next batch waits while the one before runs: a place for each input, in the inputs'
// order. It is a persistent buffer, and lies before them.
inline constexpr std::string_view kStagedInputs = "staged_inputs";

// A 16-bit copy of a weight, kept beside it for products; both are persistent buffers.
struct WeightCopy {
  std::string weight = {};
  std::string copy = {};
};

// A weight in fp32 of which products read the upper half: two persistent buffers that are it together
// (base/split_f32.h).
struct SplitWeight {
  std::string high = {};       // bf16, in the weight's shape
  std::string remainder = {};  // u8, two bytes an element
};

struct Plan {
  PlanRequest request = {};
  std::vector<WeightSpec> weights = {};
  std::vector<WeightCopy> weight_copies = {};             // current after loading and after each update
  std::map<std::string, SplitWeight> split_weights = {};  // by the weight's name, which is no buffer then
  std::vector<InitialState> initial_states = {};
  std::vector<PersistentBuffer> persistent = {};
  std::map<std::string, size_t> persistent_by_name = {};
  int64_t persistent_bytes = 0;  // where the transient region starts
  std::optional<ProgramPlan> train = {};
  std::optional<ProgramPlan> evaluate = {};
  std::vector<ScheduleEntry> step_schedule = {};
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;      // persistent plus the larger program's bound
  int64_t host_persistent_bytes = 0;  // the same of the host's arena: zeros where nothing is kept there
  int64_t host_arena_bytes = 0;
  int64_t host_lower_bound_bytes = 0;
  HostMemory host = {};           // the request's, with what the chosen kernels' libraries may take
  GpuConstant gpu_constant = {};  // zeros on a CPU
  double build_ms = 0;

  // Whether gradients are computed from a scaled loss: the outputs "used_loss_scale" and "skipped_steps" are
  // there.
  bool scales_loss() const { return request.train && request.activation_dtype == DType::kF16; }
  bool is_on_gpu() const { return request.device == KernelDevice::kCuda; }
  // Whether what was given to the device may run on while the host reads what was fetched before.
  bool runs_ahead() const { return is_on_gpu() || request.runs_ahead; }
  // What the device that the arena lies on holds beside it: on a CPU all that the process does.
  int64_t constant_bytes() const { return is_on_gpu() ? gpu_constant.total() : host.total(); }
  // What the device holds, as its own gauge counts it: the process on a CPU, the card on a GPU.
  int64_t total_bytes() const { return arena_bytes + constant_bytes(); }
  // Whether that is within the request's limit, if it has one.
  bool fits() const { return !request.memory_limit_bytes || total_bytes() <= *request.memory_limit_bytes; }
  // What the process holds in the machine's memory.
  int64_t host_bytes() const {
    return (is_on_gpu() ? host.total() + staging_bytes() : total_bytes()) + host_arena_bytes;
  }
  int64_t arena_bytes_of(Space space) const {
    return space == Space::kDevice ? arena_bytes : host_arena_bytes;
  }
  // The buffers that the host exchanges with the device at every run of a program; on a GPU they lie once
  // more in pinned memory.
  int64_t staging_bytes() const;
  const PersistentBuffer& buffer(const std::string& name) const;
  // What a persistent buffer holds, or a split weight's two together: fp32.
  ValueType type_of(const std::string& name) const;
  int64_t num_parameters() const;
  int64_t num_trainable_parameters() const;
};

// Builds the plan. States that come early may take bytes for speed: where the request's limit has no room for
// these they come late, as the plan's request then says, whether it fits then or not. Pure: allocates nothing
// of the run, asks the machine nothing. Errors: kUsage where a combination is refused by name. Cost:
// milliseconds (BERT-large: under 100).
Plan build_plan(const PlanRequest& request);

// The graphs of a plan before anything has a place: most of the work, and nearly the same for buckets of any
// size, so that a search builds them once and places them often.
struct PlanGraphs {
  std::vector<WeightSpec> weights = {};
  std::optional<ProgramPlan> train = {};
  std::optional<ProgramPlan> evaluate = {};
};
// Whether the logits of training are larger in this bucket than the request wants them whole.
bool chunks_loss(const PlanRequest& request, const Bucket& train_bucket);
// Errors: as build_plan().
PlanGraphs build_graphs(const PlanRequest& request);
// The rest of build_plan(): kernels, liveness, offsets, for the buckets of `request`. The order of ops stays
// that of the graphs, and so do chunks of logits, which build_graphs() may choose otherwise for other
// buckets: a search confirms its answers with build_plan(). Requires: graphs of a request that differs from
// this one in sizes of buckets and memory limits alone, and accumulates if this one does. Errors: as
// build_plan(). Cost: some milliseconds; where graphs are placed often, placer.h.
Plan place_plan(const PlanRequest& request, PlanGraphs graphs);
// build_plan() with graphs from elsewhere: `graphs_of` makes those of a request.
Plan plan_within_limit(const PlanRequest& request,
                       const std::function<PlanGraphs(const PlanRequest&)>& graphs_of);

// The ladder of token counts up to `largest`: steps of a sixteenth of a power of two, at least 16, so that
// less than 1/16 of a batch's rows are unused.
std::vector<Bucket> make_ladder(const Bucket& largest);
// The smallest bucket that holds so many tokens. Requires: tokens fit into the largest.
const Bucket& bucket_for(const ProgramPlan& program, int64_t tokens);

// The product that a matmul op is in a bucket, as its kernel is asked for it, and how fp32 operands are
// multiplied there: as the request says, but plainly where the plan's kernel is not that of three products.
struct PlannedProduct {
  MatmulProblem problem = {};
  Fp32Products fp32 = Fp32Products::kF32;
};
PlannedProduct planned_product(const OpView& op, const Bucket& bucket, const PlanRequest& request,
                               std::string_view kernel);
// The distinct products of a program that a library computes in one bucket, and how many ops each has; none
// on a CPU.
std::map<ProductKey, std::pair<PlannedProduct, int64_t>> products_of(const ProgramPlan& program,
                                                                     const Bucket& bucket,
                                                                     const PlanRequest& request);

// What a kernel must know of an op to accept it and state its scratch; kernel_problem.cc.
Problem kernel_problem(const OpView& op, const Bucket& bucket, const PlanRequest& request);

}  // namespace plimsoll
