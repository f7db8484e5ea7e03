// Converts a plan request into the arguments and facts of a run with this request, for tests of searches that change arguments.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/optimizer_table.h"
#include "optim/optimizers.h"
#include "plan/compile/testing/plan_case.h"
#include "plan/request/request_of.h"

namespace plimsoll {

inline void set_optimizer(const OptimizerConfig& config, Arguments& arguments) {
  const auto name = std::ranges::find_if(optimizer_names(), [&](const OptimizerName& each) {
    return !each.is_paged && each.runs == optimizer_row(config.kind).name;
  });
  arguments.optim = name->name;
  if (config.momentum > 0) arguments.optim_args["momentum"] = fmt::format("{}", config.momentum);
  if (config.momentum_dtype == DType::kBF16) arguments.optim_args["momentum_dtype"] = "bfloat16";
  if (config.variance_dtype == DType::kBF16) arguments.optim_args["variance_dtype"] = "bfloat16";
  arguments.adam_beta1 = config.beta1;
  arguments.adam_beta2 = config.beta2;
  arguments.adam_epsilon = config.epsilon;
  arguments.weight_decay = config.weight_decay;
  arguments.max_grad_norm = config.max_grad_norm;
  arguments.seed = static_cast<int64_t>(config.noise_seed);
}

// Returns the run. Expects that request_of() converts it back to the given request.
inline RunSpec run_of(const PlanRequest& request) {
  RunSpec run;
  Arguments& arguments = run.arguments;
  set_optimizer(request.update.optimizer, arguments);
  arguments.label_smoothing_factor = request.model.label_smoothing;
  arguments.z_loss_coef = request.model.z_coefficient;
  arguments.freeze = request.model.freeze;
  arguments.dtype = request.precision.dtype == DType::kBF16 ? "bfloat16" : arguments.dtype;
  arguments.bf16 = request.precision.has_masters() && request.precision.activation_dtype == DType::kBF16;
  arguments.fp16 = request.precision.activation_dtype == DType::kF16;
  if (request.precision.copies_at_use) arguments.weight_copies = "at_use";
  arguments.optimizer_in_backward = request.update.in_backward;
  arguments.offload_optimizer = request.update.offload_states ? "True" : "False";
  arguments.offload_activations = request.offload.activations;
  if (request.recompute.policy != RecomputePolicy::kCheap)
    arguments.recompute = recompute_policy_name(request.recompute.policy);
  if (request.chunked_loss == ChunkedLoss::kAlways) arguments.chunked_loss = "always";
  if (request.chunked_loss == ChunkedLoss::kAuto) arguments.chunked_loss = "auto";
  arguments.nproc_per_node = request.ranks.count / request.num_machines;
  arguments.nnodes = request.num_machines;
  (request.ranks.context_parallel ? arguments.cp_size : arguments.tp_size) = request.ranks.tensor_size;
  arguments.sequence_parallel = request.ranks.sequence_parallel;
  arguments.pp_size = request.ranks.pipeline_size;
  arguments.zero_stage = static_cast<int64_t>(request.ranks.zero_stage);
  if (request.ranks.updates_on_first) {
    arguments.data_parallel_mode = "dp";
    arguments.zero_stage = 0;
  }
  arguments.stage3_param_persistence_threshold = request.ranks.least_divided_elements;
  arguments.reshard_after_forward = !request.ranks.keeps_gathered;
  arguments.memory_limit = request.memory_limit_bytes;
  arguments.per_device_train_batch_size = request.batches.train.sequences;
  arguments.per_device_eval_batch_size = request.batches.evaluate.sequences;
  arguments.gradient_accumulation_steps = request.batches.accumulation_steps;
  arguments.max_seq_length = request.batches.train.longest;
  const bool is_full =
      request.batches.train.tokens == request.batches.train.sequences * request.batches.train.longest &&
      request.batches.train.longest == request.batches.evaluate.longest;
  run.facts = {.train = request.train,
               .evaluate = request.evaluate,
               .model = request.model.config,
               .problem_type = request.model.problem_type,
               .adapter = {.stored = request.model.lora},
               .passes = request.passes,
               .device = request.device,
               .train_bucket = request.batches.train,
               .evaluate_bucket = request.batches.evaluate,
               .lengths = is_full ? SequenceLengths::kAllLongest : SequenceLengths::kAsInBatch,
               .captured = {.buckets = request.captured_buckets},
               .host = {.process_bytes = request.host.process_bytes,
                        .data_bytes = request.host.data_bytes,
                        .io_bytes = request.host.io_bytes},
               .calibrations = {.cpu = request.cpu_calibration},
               .thresholds = {.elements_at_once = request.update.elements_at_once,
                              .least_offloaded_bytes = request.offload.least_bytes}};
  run.facts.ranks.links = request.named_links;
  PlanRequest made = request_of(run);
  // request_of() sets the memory limit to the memory of the GPU, while requests in tests may have no limit.
  made.memory_limit_bytes = request.memory_limit_bytes;
  EXPECT_TRUE(made == request) << "the arguments of the run do not ask for this request";
  return run;
}

}  // namespace plimsoll
