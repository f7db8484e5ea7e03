// The request that a plan is made from: everything that determines what a run does and how much memory it needs. It consists of plain
// values and does not depend on the machine that plans. The code in plan/request makes it from arguments, and the plan keeps a copy.
//
// GraphRequest contains everything that determines the graphs, and is compared as a whole: a search builds graphs once for all requests
// with equal GraphRequests. The other fields of PlanRequest determine sizes, kernels, times and offsets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/passes/pass.h"
#include "hardware/cpu_isa.h"
#include "hardware/cpu_target.h"
#include "hardware/disk_rates.h"
#include "hardware/gpu_target.h"
#include "hardware/link_calibration.h"
#include "hardware/rank_links.h"
#include "hardware/tuning_table.h"
#include "kernels/catalog/catalog.h"
#include "kernels/matmul/matmul_catalog.h"
#include "models/lora.h"
#include "models/model.h"
#include "optim/optimizer.h"

namespace plimsoll {

// The model, its task, and which of its weights are trained.
struct ModelOptions {
  ModelConfig config = {};
  ProblemType problem_type = ProblemType::kSingleLabel;
  double label_smoothing = 0.0;
  // weight of the z-loss (a penalty on large logits) in training; Requires: 0 unless the task predicts tokens
  double z_coefficient = 0.0;
  // The share of tokens that have a label, on average. If it is below 1, the head of the model computes only the rows of tokens with a
  // label.
  double label_share = 1.0;
  // true if an evaluation copies the logits to the host; Requires: the task has logits
  bool outputs_logits = true;
  std::vector<std::string> freeze = {};  // patterns for the names of parameters that are not trained
  // Factors on the learning rate of the parameters whose names match a pattern.
  std::map<std::string, double> rate_factors = {};
  std::optional<LoraConfig> lora = {};
  friend bool operator==(const ModelOptions&, const ModelOptions&) = default;
};

// The data types in which values are stored and matrix products are computed.
struct PrecisionOptions {
  // Data type of the weights, and of the activations unless `activation_dtype` is set.
  DType dtype = DType::kF32;
  // kBF16 and kF16 select mixed precision with fp32 master weights; with kF16 the loss is also scaled.
  std::optional<DType> activation_dtype = {};
  // Computes the matrix products of training from 8-bit floating-point codes. Requires: 16-bit activations.
  bool fp8 = false;
  // Converts weights to 8-bit codes in each micro-batch instead of keeping the codes from one update to the next.
  bool fp8_codes_at_use = false;
  // Data type of gradients of weights that matrix products read in 16 bits. If it is not set, these gradients are fp32 where they are
  // accumulated over micro-batches, and have the type of the activations otherwise.
  std::optional<DType> gradient_dtype = {};
  // how matrix products multiply fp32 values; all but kF32 need a GPU
  Fp32Products fp32_products = Fp32Products::kF32;
  // Keeps 16-bit copies of weights even if the matrix products of the device can round weights while they read them.
  bool weight_copies = false;
  // Makes each 16-bit copy of a matrix right before the matrix product that reads it and frees it afterwards, which saves 2 bytes per
  // parameter. It has no effect on weights that are stored as two halves, or if matrix products round weights while they read them.
  bool copies_at_use = false;

  // Returns true if the run has fp32 master weights in addition to 16-bit activations.
  bool has_masters() const { return activation_dtype && dtype == DType::kF32; }
  friend bool operator==(const PrecisionOptions&, const PrecisionOptions&) = default;
};

// The optimizer, and when and where its updates run.
struct UpdateOptions {
  OptimizerConfig optimizer = {};
  // Updates each weight as soon as its gradient is complete. Requires: no gradient clipping, no accumulation, no fp16.
  bool in_backward = false;
  // Stores optimizer states in host memory, and also the parts of weights that only updates read.
  bool offload_states = false;
  // With `offload_states`: stores the states in a file on a disk instead of host memory.
  bool states_on_disk = false;
  // The largest number of elements that one update op processes with `offload_states`. If the gradient of an embedding table is computed
  // some rows at a time, this also limits the elements of these rows. 2 Mi elements have 16 MiB of AdamW moments. Copying these to the
  // device and back takes less time than the backward pass of a layer of BERT-large, which runs at the same time. With half as many
  // elements, CUDA graphs would take 3 MiB more for that model, and the peak would stay the same.
  int64_t elements_at_once = int64_t{2} << 20;
  friend bool operator==(const UpdateOptions&, const UpdateOptions&) = default;
};

// The properties of the device that determine which kernels exist.
struct DeviceOptions {
  KernelDevice kind = KernelDevice::kCpu;
  int num_threads = 1;
  CpuIsa isa = CpuIsa::kBaseline;
  GpuTarget gpu = {};              // description of the GPU; used if `kind` is kCuda
  bool reference_kernels = false;  // true if only the plain reference kernels are used
  // Implementations in the kernel catalog that the user forces. Each is the only candidate for its kernel. At most one per kernel.
  std::vector<std::string> forced_kernels = {};

  bool is_gpu() const { return kind == KernelDevice::kCuda; }
  // Returns true if the device can multiply bf16.
  bool has_bf16() const { return is_gpu() ? gpu.bf16_tflops > 0 : has_bf16_products(isa); }
  bool has_tf32() const { return is_gpu() && gpu.tf32_tflops > 0; }
  // Returns true if the device can multiply fp8. On a CPU only the reference kernels can.
  bool has_fp8() const { return is_gpu() ? gpu.sm >= kOldestSmOfFp8 : reference_kernels; }
  friend bool operator==(const DeviceOptions&, const DeviceOptions&) = default;
};

// The sizes that a plan for the generation of texts has room for.
struct GenerationSizes {
  int64_t longest_prompt = 0;   // tokens of the longest prompt; 0 if the plan generates no text
  int64_t max_new_tokens = 0;   // largest number of tokens that are generated per prompt
  int64_t prompts_at_once = 1;  // number of prompts whose texts are generated together
  // number of sequences generated at the same time per prompt: beams, or sampled texts
  int64_t sequences_per_prompt = 1;
  int64_t texts_per_prompt = 1;  // number of texts returned per prompt
  // The host selects the next token among this number of tokens with the largest logits, per sequence. 0: it reads all logits.
  int64_t candidates = 0;
  friend bool operator==(const GenerationSizes&, const GenerationSizes&) = default;
};

inline constexpr int64_t kKvPageSize = 16;  // number of tokens per page of a KV cache

// The KV cache of a plan that generates text. It consists of pages of tokens; sequences with the same beginning share pages.
struct GenerationOptions {
  int64_t num_pages = 0;  // number of pages of the cache; 0 if the plan generates no text
  int64_t page_size = kKvPageSize;
  int64_t pages_per_sequence = 0;  // largest number of pages of one sequence
  GenerationSizes sizes = {};      // the sizes from which the other fields are computed
  friend bool operator==(const GenerationOptions&, const GenerationOptions&) = default;
};

// The values that the ranks divide among them; all other values are the same on every rank (Rajbhandari et al., arXiv 1910.02054).
enum class ZeroStage : uint8_t {
  kNone,       // nothing is divided: every rank stores everything
  kStates,     // ZeRO stage 1: optimizer states are divided
  kGradients,  // ZeRO stage 2: gradients are divided too
  kWeights,    // ZeRO stage 3: weights are divided too
};

// The order in which a stage of a pipeline runs the forward and backward passes of the micro-batches of a step.
enum class PipelineSchedule : uint8_t {
  kGpipe,  // all forward passes first, then all backward passes (Huang et al., arXiv 1811.06965)
  kOneForwardOneBackward,  // forward and backward passes alternate, each as early as possible: "1F1B" (Narayanan et al., arXiv 1806.03377)
  // like kOneForwardOneBackward, with several chunks of layers per stage (Narayanan et al., arXiv 2104.04473)
  kInterleaved,
};

// The ranks of a run and how they exchange gradients. All ranks of the same pipeline stage have the same plan.
struct RankOptions {
  int64_t count = 1;
  // The number of ranks of a tensor-parallel group, which divide the weights of the layers and read the same batches. Requires: a divisor
  // of `count`; 1 if the ranks divide optimizer states.
  int64_t tensor_size = 1;
  // Sequence parallelism: between the matrix products that the ranks of a tensor-parallel group divide, each rank computes only a part of
  // the rows of activations (Korthikanti et al., arXiv 2205.05198). Has no effect if tensor_size is 1. Requires: the number of tokens of
  // every batch is a multiple of row_multiple().
  bool sequence_parallel = false;
  // Context parallelism: the tensor_size ranks of a group have whole weights and divide only the rows (tokens) of activations. For
  // attention they exchange rows for heads, so that each rank has all rows of some heads (Jacobs et al., arXiv 2309.14509). Has no effect
  // if tensor_size is 1. Requires: as for sequence_parallel, which is false.
  bool context_parallel = false;
  // The number of stages of a pipeline, each of which has some layers of the model. Requires: a divisor of count / tensor_size; at most the
  // number of layers.
  int64_t pipeline_size = 1;
  int64_t stage = 0;  // the pipeline stage that the plan is for
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  // The number of chunks of neighbouring layers per stage. With P stages, stage r has the chunks r, r + P, r + 2 P, ... of the model.
  // Requires: 1, or at least 2 if `schedule` is kInterleaved; chunks x stages is at most the number of layers.
  int64_t chunks = 1;
  // The number of the first layer of each stage or, if stages have several chunks, of each chunk. If it is empty, build_plan() chooses it
  // such that the slowest stage is as fast as possible, and begin_graphs() gives each stage the same number of layers.
  std::vector<int64_t> first_blocks = {};
  ZeroStage zero_stage = ZeroStage::kNone;
  // The first rank stores all optimizer states, makes all updates and sends the new weights to the other ranks, like PyTorch's
  // DataParallel. Every rank reserves as much memory as the first one, because all have the same plan. Requires: zero_stage is kStates.
  bool updates_on_first = false;
  // ZeRO stage 3 divides only weights with at least this many elements, like DeepSpeed's stage3_param_persistence_threshold.
  int64_t least_divided_elements = 100'000;
  // ZeRO stage 3 keeps gathered weights from the forward to the backward pass instead of gathering them twice, like PyTorch's
  // reshard_after_forward=False.
  bool keeps_gathered = false;
  // Gradients are summed over the ranks in groups, each with one collective operation. A group has at least this number of bytes, except
  // that the last one may have fewer. PyTorch's DDP has the same default (bucket_cap_mb).
  int64_t bucket_bytes = int64_t{25} << 20;
  // True for an axis of the mesh (data, tensor, pipeline) if the GPUs along it access each other's memory directly instead of using NCCL.
  bool maps_peers = false;
  bool tensor_maps_peers = false;
  bool pipeline_maps_peers = false;

  // Returns the number of groups of ranks that read different batches.
  int64_t data_size() const { return count / (tensor_size * pipeline_size); }
  // True if the ranks of a group divide only the rows of activations, and have whole weights.
  bool divides_context() const { return context_parallel && tensor_size > 1; }
  bool divides_layers() const { return tensor_size > 1 && !context_parallel; }
  // True if the ranks of a tensor-parallel group divide the layers and also the rows of activations (sequence parallelism).
  bool divides_rows() const { return sequence_parallel && divides_layers(); }
  // The number of tokens of a batch is rounded up to a multiple of this number, so that each rank gets the same number of rows, a multiple
  // of 8. The rows of a rank then begin at a multiple of 16 bytes, and at the start of a block of random numbers.
  int64_t row_multiple() const { return divides_rows() || divides_context() ? 8 * tensor_size : 1; }
  bool maps_any_peers() const { return maps_peers || tensor_maps_peers || pipeline_maps_peers; }
  int64_t num_chunks_of_model() const { return pipeline_size * chunks; }
  bool is_last_stage() const { return stage + 1 == pipeline_size; }
  friend bool operator==(const RankOptions&, const RankOptions&) = default;
};

struct GraphRequest {
  bool train = true;     // true if the plan has a program for training
  bool evaluate = true;  // true if the plan has a program for evaluation and prediction
  ModelOptions model = {};
  PrecisionOptions precision = {};
  UpdateOptions update = {};
  DeviceOptions device = {};
  PassOptions passes = {};
  GenerationOptions generation = {};
  RankOptions ranks = {};
  friend bool operator==(const GraphRequest&, const GraphRequest&) = default;
};

// The sizes of batches. `train` and `evaluate` are the sizes of the largest batches that result from the run's data and its order, or batch
// size x maximum length if the data is not known.
struct BatchOptions {
  Bucket train = {};
  Bucket evaluate = {};
  // for text generation: the largest number of new tokens and of sequences in one run of the model
  Bucket generate = {};
  int64_t accumulation_steps = 1;  // number of micro-batches per update
  friend bool operator==(const BatchOptions&, const BatchOptions&) = default;
};

// States where updates run whose optimizer states are offloaded: at the end of the step, or in the forward pass of the next step (the pass
// updates_at_use). kWhereFaster: where the estimated step is shorter. kAlways: in the next forward pass whenever possible.
enum class UpdatesAtUse : uint8_t { kWhereFaster, kAlways };

// States which values are stored in host memory while the device does not need them, and when they are transferred.
struct OffloadOptions {
  // Offloads values that are saved for the backward pass to host memory if they have at least `least_bytes`.
  bool activations = false;
  int64_t least_bytes = int64_t{1} << 20;
  // With `activations`: keeps a value on the device if it fits into memory that is unused
  // at that time. How much is unused depends on the batch size.
  bool saved_in_headroom = true;
  // With UpdateOptions::offload_states: transfers states to the device as early as unused memory allows, instead of right before their
  // update. How much memory is unused depends on the batch size.
  bool early_states = true;
  // States where updates with offloaded states run; used only with `early_states`.
  UpdatesAtUse updates_at_use = UpdatesAtUse::kWhereFaster;
  // With `early_states`: early transfers may raise the peak by this number of bytes, or by a twentieth of the transient bytes if that is
  // more.
  int64_t extra_state_bytes = 0;
  friend bool operator==(const OffloadOptions&, const OffloadOptions&) = default;
};

// States whether the training program computes logits in chunks of rows instead of all at once. kAuto: only if the logits are larger than
// kMostLogitsBytes.
enum class ChunkedLoss : uint8_t { kAuto, kAlways, kNever };

// Limits the number of CUDA graphs that a GPU keeps: three segments (forward, backward, optimizer) for this number of buckets (batch
// sizes). Graphs of evaluation count towards this limit. The least recently used graph is dropped first.
inline constexpr int kMaxCapturedBuckets = 32;
inline constexpr int kMaxCapturedSegments = 3 * kMaxCapturedBuckets;

// The number of buckets (batch sizes) in which a segment (forward, backward or optimizer) runs at least twice during the run. A GPU
// captures a segment as a CUDA graph when it runs for the second time.
struct CapturedBuckets {
  // buckets of the forward and backward segments, which run once per micro-batch
  int train = kMaxCapturedBuckets;
  // Buckets of the optimizer segment, which runs once per step. At most `train` of them are counted.
  int update = kMaxCapturedBuckets;
  int evaluate = kMaxCapturedBuckets;  // buckets of the evaluation program, which runs once per batch
  friend bool operator==(const CapturedBuckets&, const CapturedBuckets&) = default;
};

// How a GPU's library of matrix products is used.
struct GpuProductOptions {
  int64_t workspace_bytes = kCublasLtWorkspaceBytes;  // size of the workspace of each matrix product
  TuningTable tuning = {};  // tuned algorithms of matrix products; if empty, the library chooses
  friend bool operator==(const GpuProductOptions&, const GpuProductOptions&) = default;
};

// The bytes of host memory that the process uses outside the arena.
struct HostMemory {
  int64_t process_bytes = 0;  // program, libraries and their working memory, as measured (src/hardware/)
  int64_t data_bytes = 0;     // tokenized data, tables of labels, and batches that are prepared in advance
  int64_t io_bytes = 0;       // buffers for reading and writing checkpoints
  // The peak of the whole process while it reads data files, before it allocates the arena. It is not part of total(). If it is larger
  // than the memory that the rest of the run needs, the plan adds the difference to data_bytes.
  int64_t reading_bytes = 0;
  // number of buckets (batch sizes) for which the executor keeps prepared calls of ops (addresses and sizes)
  int64_t bound_buckets = 0;
  // Memory that libraries used by kernels allocate while a kernel runs, and the part of it that the allocator keeps afterwards. Computed
  // by the planner.
  int64_t library_bytes = 0;
  // The host buffer from which a checkpoint is written while training continues (checkpoint_share.h). Computed by the planner.
  int64_t checkpoint_bytes = 0;
  int64_t total() const { return process_bytes + data_bytes + io_bytes + library_bytes + checkpoint_bytes; }
  friend bool operator==(const HostMemory&, const HostMemory&) = default;
};

struct PlanRequest : GraphRequest {
  BatchOptions batches = {};
  RecomputeChoice recompute = {};
  ChunkedLoss chunked_loss = ChunkedLoss::kNever;
  OffloadOptions offload = {};
  // The number of batch sizes for which a GPU will capture CUDA graphs, if the data and the steps of the run are known.
  CapturedBuckets captured_buckets = {};
  GpuProductOptions products = {};
  // measurements that correct estimated times on a CPU; if empty, nothing is corrected
  CpuCalibration cpu_calibration = {};
  MeasuredLinks links = {};  // measured times of exchanges between ranks; if empty, rates are assumed
  // Links that the user names; may be empty. Their nominal rates replace the measurements in `links`.
  RankLinks named_links = {};
  int64_t num_machines = 1;  // number of machines on which the ranks run; used with named_links
  DiskRates disk = {};       // rates of the disk that stores optimizer states
  HostMemory host = {};
  // Reserves host memory for a copy of the state, from which a checkpoint is written while training continues. On a CPU, the plan leaves
  // this buffer out if it would exceed the memory limit.
  bool async_save = false;
  std::optional<int64_t> memory_limit_bytes = {};
  // For debugging: no two buffers share addresses. The executor then allocates each buffer separately, so that sanitizers detect accesses
  // out of bounds.
  bool separate_buffers = false;
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

}  // namespace plimsoll
