// Plans a run before anything is allocated, on a machine that need not have the device. The plan states to the byte how
// much memory the run will hold, where it is (on the device, on the host or on a disk), and what it is used for. Pure
// functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/methods.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Selects whether a report lists the cheapest ways to save memory. Each of them is planned, so such a report takes up
// to five times as long; if the run does not fit, up to a hundred times as long.
enum class Savings : uint8_t { kLeaveOut, kPlan };

// The run that was planned, as the title of the printed plan describes it.
struct PlannedRun {
  std::string model;      // the model: folder, hub name or preset; if none is named, the type of the model
  std::string task;       // the task, such as "sequence classification"
  std::string device;     // the device, such as "cpu, 2 threads" or "cuda:0, NVIDIA H200"
  std::string precision;  // the precision, such as "fp32" or "bf16 mixed"
  std::string optimizer;  // the optimizer, such as "SGD with momentum 0.9"; empty if the run does not train
  int64_t num_parameters = 0;
  int64_t num_trainable_parameters = 0;  // 0 if the plan is not for training
  // The number of sequences in the largest micro-batch that the plan has room for; for a plan without training, in the
  // largest batch of an evaluation.
  int64_t num_sequences = 0;
  int64_t longest_sequence = 0;  // number of tokens of the longest sequence
  int64_t num_tokens = 0;
  int64_t accumulation_steps = 1;
  std::optional<int64_t> memory_limit_bytes = {};  // the value of --memory_limit, or the memory of the card
  double planning_ms = 0;                          // time that it took to make the plan
};

// The memory of a phase in bytes, by what it is used for. Each field is a row of the printed memory table.
struct PlannedPurposes {
  int64_t weights = 0;
  int64_t optimizer_states = 0;
  int64_t gradients = 0;
  int64_t saved = 0;          // activations saved for the backward pass
  int64_t temporary = 0;      // buffers of values that are needed only for a short time
  int64_t functionality = 0;  // KV caches, copies for offloading, and data exchanged between ranks
  int64_t staging = 0;        // buffers for inputs and outputs, which host and device exchange
  int64_t gaps = 0;           // unused bytes of the arena between buffers
  int64_t constant = 0;       // memory that the process holds outside the arena
  int64_t total() const {
    return weights + optimizer_states + gradients + saved + temporary + functionality + staging + gaps +
           constant;
  }
  bool operator==(const PlannedPurposes&) const = default;
};

// One phase of a run, which is a column of the printed memory table.
struct PlannedPhase {
  std::string name;  // name of the phase, such as "load", "resume", "train", "eval" or "save"
  PlannedPurposes by_purpose;
  int64_t arena_bytes = 0;  // size of the part of the arena that the phase uses
  int64_t total_bytes = 0;  // equals by_purpose.total(), which includes the memory outside the arena
};

// The op of a phase at which the most memory is in use.
struct PlannedPeak {
  std::string phase;  // the phase: "train" or "eval"
  // the part of the step that contains the op: "forward", "backward" or "optimizer"
  std::string segment;
  std::string module;  // module that the op belongs to, such as "encoder.layer.23.feed_forward"; may be empty
  std::string op;      // name of the op, such as "matmul"
  int64_t position = 0;  // index of the op, from 0, among the num_ops ops of the step
  int64_t num_ops = 0;
  int64_t transient_bytes = 0;  // bytes in use of buffers that exist only during a step or batch
};

struct PlannedBytes {
  std::string name;
  int64_t bytes = 0;
};

// Memory of one module of the model. A member whose name ends in "at_most" is the largest value that the module reaches
// within a step. Modules reach their largest values at different ops, so the sum over the modules can exceed the peak
// of the step.
struct PlannedModule {
  std::string name;  // empty for memory that belongs to no module
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t state_bytes = 0;
  int64_t gradient_bytes_at_most = 0;
  int64_t saved_bytes_at_most = 0;
  int64_t temporary_bytes_at_most = 0;
};

// A rule of thumb for the memory of training in bytes per parameter. Reports compare it with the plan.
struct PlannedRule {
  std::string name;     // name of the rule, such as "AdamW in fp32"
  std::string made_of;  // parts of the bytes per parameter, such as "4 weights + 4 gradients + 8 moments"
  double bytes_per_parameter = 0;
  int64_t bytes = 0;     // bytes_per_parameter times the number of parameters of the model
  bool applies = false;  // true if the settings of this run are those of the rule
};

// The values that one block of the model keeps for the backward pass, and those that it recomputes.
struct PlannedRecomputation {
  std::string block;             // name of the block, such as "encoder.layer.3"
  int64_t kept_bytes = 0;        // bytes of values saved for the backward pass, per micro-batch
  int64_t recomputed_bytes = 0;  // bytes of values recomputed in the backward pass, per micro-batch
  double flops = 0;              // floating-point operations of the recomputation per step
  double ms = 0;                 // estimated time of the recomputation per step
  // for each kind of op, the number of times that it runs again per micro-batch
  std::map<std::string, int> ops;
};

struct PlannedMemory {
  std::vector<PlannedPhase> phases;  // the phases, in the order in which a run has them
  // Index in `phases` of the phase that needs the most memory. Its total_bytes are the total_bytes of the plan.
  size_t largest_phase = 0;
  std::vector<PlannedPeak> peaks;  // the peak of training, then that of evaluation
  // the parts of the memory that the process holds outside the arena, whose sum is PlannedPurposes::constant
  std::vector<PlannedBytes> constants;
  std::vector<PlannedModule> modules;  // modules in the order in which the forward pass uses them
  std::vector<PlannedRule> rules;
  // one entry per block of the model; empty unless the run trains
  std::vector<PlannedRecomputation> recomputation;
  // Pinned memory of the host that offloading needs. It is 0 without offloading, and not included in the total.
  int64_t host_arena_bytes = 0;
  int64_t host_lower_bound_bytes = 0;
  PlannedPurposes host_by_purpose;
  // Size of the file that --offload_optimizer nvme:FOLDER creates; 0 without it. Not included in the total.
  int64_t disk_bytes = 0;
  // The largest number of arena bytes that hold optimizer states at the same time, from when the states are
  // read from the disk until they are written back.
  int64_t disk_staging_bytes = 0;
  // Returns the phase of this name, or null.
  const PlannedPhase* find_phase(std::string_view name) const;
};

// Estimated work of a group of operations in a step.
struct PlannedOperations {
  std::string name;  // name of the group, such as "matrix products" or "element-wise"
  double flops = 0;
  double bytes = 0;  // bytes that the operations read from and write to memory
  double ms = 0;
};

// Estimated speed. A step contains all its micro-batches and one update. For a plan without training, a step is one
// batch.
struct PlannedSpeed {
  int64_t samples_per_step = 0;
  int64_t tokens_per_step = 0;
  double step_ms = 0;
  double forward_ms = 0;
  double backward_ms = 0;
  double optimizer_ms = 0;
  double samples_per_s = 0;
  std::vector<PlannedOperations> groups;
  bool is_calibrated = false;  // true if the estimate uses a calibration of this CPU
  // describes the source of the rates of the device that the estimate assumes, such as its data sheet
  std::string rates;
};

// Memory and speed of the planned generation if it used another number of beams or, if tokens are sampled, another
// number of texts per prompt.
struct PlannedBeams {
  int64_t num_beams = 1;
  int64_t num_pages = 0;
  int64_t cache_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t total_bytes = 0;
  bool fits = true;
  double decode_run_ms = 0;     // estimated time of one decode run, which adds one token to each sequence
  double new_tokens_per_s = 0;  // tokens of the returned texts per second
};

// The KV cache and the speed of a plan that generates texts.
struct PlannedGeneration {
  int64_t prompts_at_once = 0;
  int64_t sequences_per_prompt = 0;  // number of beams, or of texts that are sampled for a prompt
  int64_t longest_prompt = 0;        // number of tokens of the longest prompt
  int64_t max_new_tokens = 0;
  int64_t cache_bytes_per_token = 0;  // bytes of the key and the value of one token, summed over all layers
  int64_t page_tokens = 0;
  int64_t num_pages = 0;  // the largest number of pages in use at once; the arena has room for them
  // number of pages of the longest prompt that all its sequences share, because these pages contain only tokens of the prompt
  int64_t shared_pages = 0;
  int64_t own_pages = 0;  // largest number of pages of one sequence that it does not share
  double prefill_ms = 0;  // estimated time to process the largest batch of prompts (prefill)
  // Estimated time in which the model computes one more token of each sequence. It excludes the time in which the host
  // selects the tokens.
  double decode_run_ms = 0;
  double new_tokens_per_s = 0;
  std::vector<PlannedBeams> beams;  // plans with other numbers of beams; empty with Savings::kLeaveOut
  int64_t cache_bytes() const { return num_pages * page_tokens * cache_bytes_per_token; }
};

// A change of arguments for which a plan was made too, so that it can be compared with the plan for the unchanged arguments.
struct PlannedChange {
  std::string arguments;  // the changed arguments, as a user types them
  int64_t total_bytes = 0;
  bool fits = false;         // true if the changed run fits into --memory_limit, or if there is no limit
  double relative_time = 1;  // estimated time per sample, divided by that of the unchanged run
  MethodEffect effect = MethodEffect::kSameSums;  // the effect of the change on the results of training
  std::string note;                               // further effects of the change; may be empty
};

// The result of planning. All sizes are in bytes; total = arena + constant.
struct PlanReport {
  int64_t total_bytes = 0;
  int64_t arena_bytes = 0;
  // lower bound of the arena: with this order of ops, no placement of the buffers needs less
  int64_t lower_bound_bytes = 0;
  int64_t constant_bytes = 0;  // memory that the process holds outside the arena
  bool fits = true;            // false if a memory limit is set and the run exceeds it
  PlannedRun run;
  PlannedMemory memory;
  PlannedSpeed speed;
  // KV cache and speed of a plan that generates texts; not set for other plans
  std::optional<PlannedGeneration> generation;
  // Changes of arguments that save memory, cheapest first. If the run does not fit, the changes that make it fit
  // come before those that only reduce its memory. Empty with Savings::kLeaveOut.
  std::vector<PlannedChange> changes;
  // The reason why the run does not fit, and the cheapest changes with which it would fit. Empty with
  // Savings::kLeaveOut, or if the run fits.
  std::string refusal;
  // The fields below contain the same report as texts for people and for files.
  std::string table;    // for people: memory by purpose and phase, and operations by group
  std::string summary;  // the five most important lines of `table`
  std::string line;     // the most important line of `table`
  // The cheapest ways to save memory; empty with Savings::kLeaveOut, or if the run does not fit. For a plan that generates texts: memory
  // and speed with other numbers of beams.
  std::string savings;
  std::string modules;  // for people: memory by module
  std::string why;      // for people: the reasons for the choice of kernels and passes, and the use of memory
  std::string
      html;  // with --html, for a plan, a dry run or a run that generates texts: the report as one HTML page
  // with --trace, for the kinds of plans that also have `html`: a trace for Perfetto with estimated times
  std::string trace;
  // the plan as JSON, with the keys total_bytes, spaces, by_purpose, by_phase, operations, ...
  std::string json;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

// Plans a training run with these arguments. It needs no weights, data or device: --config_name or
// --model_name_or_path may name a preset. A plan that does not fit is returned with fits = false. Errors:
// kUsage, kBadData.
PlanReport plan_run(const Arguments& arguments, const Environment& environment = process_environment(),
                    Savings savings = Savings::kLeaveOut);
// Plans the run with the transfer rates of the links that `links` names instead of measured rates: the link between ranks inside a machine,
// that between machines, or both ("nvlink4,ib400"). docs/RANKS.md lists the names. Errors: kUsage for other names; otherwise as plan_run().
PlanReport plan_run_with_links(const Arguments& arguments, const std::string& links,
                               const Environment& environment = process_environment(),
                               Savings savings = Savings::kLeaveOut);

// Plans a run of `generate`. It needs no weights, tokenizer or device. The plan has room for per_device_eval_batch_size prompts of
// `prompt_tokens` tokens (0: 128, or fewer if the model has too few positions), or with --dataset_name dummy for the random prompts.
// A Generator for such prompts has the same plan, provided that its tokenizer has as many tokens as the model's vocabulary. Errors: kUsage,
// kBadData.
PlanReport plan_generation(const Arguments& arguments, int64_t prompt_tokens = 0,
                           const Environment& environment = process_environment(),
                           Savings savings = Savings::kLeaveOut);

// Plans a run as plan_run() does, and throws if it does not fit. Errors: kWillNotFit if the plan exceeds
// --memory_limit; the message names the cheapest changes that make it fit. Otherwise as plan_run().
void require_fit(const Arguments& arguments, const Environment& environment = process_environment());

// Returns the number of ranks with which a run trains on this machine if its arguments do not set it: one per visible GPU
// with --device auto, as Trainer does, otherwise 1. Cost: opens the GPU driver, about 100 ms, if there is one.
int64_t num_ranks_on_this_machine(const Arguments& arguments);

}  // namespace plimsoll
