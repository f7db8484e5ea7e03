// Finds how a number of GPUs, which this machine need not have, trains a model fastest: how many of them divide each layer (tensor
// parallelism), which optimizer states, gradients and weights are divided among GPUs with different batches (ZeRO), how the batch
// is split into micro-batches, and what is recomputed. Every answer is planned by the same code as `plan` and `train`. The
// functions are pure except that they read the files that the arguments name. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

struct RankFitOptions {
  // Model, sequence length, device and the other settings of the run. If `gpus_per_machine` is 0, an nproc_per_node above 1 is
  // the number of GPUs per machine. The search chooses tp_size, sequence_parallel, cp_size, pp_size, zero_stage and
  // nnodes, and does not read them.
  Arguments arguments = {};
  int64_t gpus = 1;
  // Number of GPUs per machine. 0 means nproc_per_node if that is above 1, otherwise 8, but at most `gpus`.
  int64_t gpus_per_machine = 0;
  // names of the links inside and between machines, such as "nvlink4,ib400"; "" means the links of the card, also
  // between machines
  std::string links = {};
  // Number of sequences per optimizer step of all GPUs. Default: batch size x accumulation steps x GPUs.
  std::optional<int64_t> effective_batch_size = {};
};

struct RankFitRow {
  int64_t tensor_size = 1;         // value of --tp_size
  bool sequence_parallel = false;  // value of --sequence_parallel
  int64_t context_size = 1;        // value of --cp_size
  int64_t pipeline_size = 1;       // value of --pp_size
  int64_t data_size = 1;           // number of groups of GPUs that train on different batches
  int64_t zero_stage = 0;          // value of --zero_stage
  std::string recompute = {};      // value of --recompute
  int64_t micro_batch = 0;         // value of --per_device_train_batch_size
  int64_t accumulation = 0;        // value of --gradient_accumulation_steps
  int64_t bytes = 0;               // planned memory per GPU
  // The next four fields are the memory by purpose in the phase that needs the most memory.
  int64_t weight_bytes = 0;
  int64_t state_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t activation_bytes = 0;  // activations saved for the backward pass, and buffers of short-lived values
  int64_t communication_bytes = 0;  // buffers of exchanges between the GPUs, inside and outside the arena
  double samples_per_s = 0;         // estimated samples per second of all GPUs together
  double step_ms = 0;
  // The part of a step in which GPUs wait for exchanges with other GPUs or for other stages of a pipeline.
  double exposed_ms = 0;
  // Complete commands that start the run: one command for one machine; for several machines, one with torchrun and one
  // with srun.
  std::vector<std::string> commands = {};
};

// A value of an argument, or a combination of values, that the search excluded, and the reason.
struct RankFitRefusal {
  std::string choice = {};  // the excluded values, such as "--tp_size 4"
  std::string reason = {};
};

struct RankFitReport {
  std::vector<RankFitRow> rows = {};  // the combinations of settings that fit, fastest first
  std::vector<RankFitRefusal> refused = {};
  // Number of combinations of tp_size, sequence_parallel, cp_size, pp_size, zero_stage, recompute and micro-batch that the
  // search considered.
  int64_t num_choices = 0;
  // Number of combinations that were not planned, because even a lower bound of their memory exceeds the memory of
  // the GPU.
  int64_t num_pruned = 0;
  int64_t num_plans = 0;
  double seconds = 0;
  std::string links = {};  // the transfer rates between the GPUs that the search assumes, and their source
  std::vector<std::string> warnings = {};
  std::vector<std::string> notes = {};
  std::string table = {};  // the result as a table for people
  std::string json = {};   // the result as JSON for programs
};

// Searches for the fastest ways to train. Errors: kUsage and kBadData for the arguments; kWillNotFit if no row fits, and the
// message states the smallest memory that was found. Cost: seconds.
RankFitReport fit_ranks(const RankFitOptions& options,
                        const Environment& environment = process_environment());

}  // namespace plimsoll
