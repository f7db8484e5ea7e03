#include "plan/request/request_of.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/disk_transfer.h"
#include "base/optimizer_table.h"
#include "hardware/gpu_constant.h"
#include "optim/optimizer.h"
#include "plan/compile/generation_sizes.h"
#include "plan/compile/graphs.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

OptimizerConfig optimizer_of(const Arguments& arguments) {
  OptimizerConfig optimizer = parse_optimizer(arguments.optim, arguments.optim_args);
  optimizer.beta1 = arguments.adam_beta1;
  optimizer.beta2 = arguments.adam_beta2;
  optimizer.epsilon = arguments.adam_epsilon;
  optimizer.weight_decay = arguments.weight_decay;
  optimizer.max_grad_norm = arguments.max_grad_norm;
  optimizer.noise_seed = static_cast<uint64_t>(arguments.seed);
  return optimizer;
}

// Refuses offloading on a CPU, where all values are in host memory anyway. A paged optimizer is accepted on a CPU, with a note to the
// user.
void check_offload_on_cpu(const Arguments& arguments, bool trains, RequestRemarks& remarks) {
  if (offloads_optimizer(arguments) && nvme_folder(arguments).empty()) {
    throw_error(
        ErrorCode::kUsage,
        "--offload_optimizer: optimizer states are already in host memory on a CPU; leave it out, give a GPU "
        "(--device cuda:0), or keep the states on a disk (--offload_optimizer nvme:FOLDER)");
  }
  if (arguments.offload_activations) {
    throw_error(ErrorCode::kUsage,
                "--offload_activations: activations are already in host memory on a CPU; leave it out, or "
                "give a GPU (--device cuda:0)");
  }
  const OptimizerName* name = find_optimizer_name(arguments.optim);
  if (name != nullptr && name->is_paged && trains) {
    remarks.notes.push_back(
        fmt::format("--optim {}: optimizer states are already in host memory on a CPU, so this runs as {}",
                    arguments.optim, name->runs));
  }
}

// Returns true if optimizer states are stored in host memory or on a disk.
bool offloads_states(const Arguments& arguments, const OptimizerConfig& optimizer,
                     const PrecisionOptions& precision, bool trains) {
  const OptimizerName* name = find_optimizer_name(arguments.optim);
  const bool is_paged = name != nullptr && name->is_paged;
  if (!trains || (!offloads_optimizer(arguments) && !is_paged)) return false;
  // An optimizer without states can still be offloaded if training in 16 bits has fp32 master weights.
  if (optimizer_state_names(optimizer).empty() && !precision.has_masters()) {
    throw_error(ErrorCode::kUsage, "--offload_optimizer: --optim {} has no states to store {}; leave it out",
                arguments.optim, nvme_folder(arguments).empty() ? "in host memory" : "on a disk");
  }
  return true;
}

// An update of offloaded states needs about 20 bytes of device memory per element, and twice that while the states of another update are
// transferred. If the user makes the workspace of matrix products smaller, such updates would determine the peak, so they process fewer
// elements at a time, in proportion to the workspace. For BERT-large with one sequence of 512 tokens in bf16 and every setting that saves
// memory, the plan needs 1327, 1310, 1302 and 1298 MiB with workspaces of 32, 16, 8 and 4 MiB.
constexpr int64_t kWorkspacePerElementAtOnce = 16;
constexpr int64_t kLeastElementsAtOnce = int64_t{512} << 10;

void set_matmul_workspace(const Arguments& arguments, PlanRequest& request, RequestRemarks& remarks) {
  if (!arguments.matmul_workspace) return;
  if (!request.device.is_gpu()) {
    remarks.notes.emplace_back(
        "--matmul_workspace has no effect on a CPU, whose kernels request their own workspace");
    return;
  }
  request.products.workspace_bytes = *arguments.matmul_workspace / 256 * 256;
  request.update.elements_at_once = std::clamp(request.products.workspace_bytes / kWorkspacePerElementAtOnce,
                                               kLeastElementsAtOnce, request.update.elements_at_once);
}

UpdateOptions update_of(const Arguments& arguments, const DeviceOptions& device,
                        const PrecisionOptions& precision, bool trains, RequestRemarks& remarks) {
  UpdateOptions update;
  update.optimizer = optimizer_of(arguments);
  update.in_backward = arguments.optimizer_in_backward;
  if (device.is_gpu()) {
    update.offload_states = offloads_states(arguments, update.optimizer, precision, trains);
  } else {
    check_offload_on_cpu(arguments, trains, remarks);
    if (!nvme_folder(arguments).empty())
      update.offload_states = offloads_states(arguments, update.optimizer, precision, trains);
  }
  update.states_on_disk = update.offload_states && !nvme_folder(arguments).empty();
  return update;
}

ChunkedLoss chunked_loss_of(const Arguments& arguments, const RunFacts& facts, RequestRemarks& remarks) {
  const std::string by_default = task_of(facts.problem_type).has_logits ? "never" : "auto";
  const std::string& word = arguments.chunked_loss.empty() ? by_default : arguments.chunked_loss;
  const ChunkedLoss asked = word == "always" ? ChunkedLoss::kAlways
                            : word == "auto" ? ChunkedLoss::kAuto
                                             : ChunkedLoss::kNever;
  if (asked == ChunkedLoss::kNever) return asked;
  if (facts.train && !task_of(facts.problem_type).has_chunked_loss) {
    remarks.warnings.push_back(
        "--chunked_loss has no effect here: it needs one label per row, and the problem type of this run "
        "is " +
        std::string(problem_type_name(facts.problem_type)));
    return ChunkedLoss::kNever;
  }
  return facts.passes.is_on("chunked_loss") ? asked : ChunkedLoss::kNever;
}

RecomputeChoice recompute_of(const Arguments& arguments, const RunFacts& facts) {
  if (facts.recompute) return *facts.recompute;
  if (!facts.passes.is_on("recompute")) return {};
  // The values `auto` and `selective` of --recompute do not name a policy but require a search. Until the search has been made, the policy
  // is kCheap.
  return {.policy = find_recompute_policy(arguments.recompute).value_or(RecomputePolicy::kCheap)};
}

// Ignores --weight_copies at_use if there are no 16-bit copies of weights, because weights are stored as two 16-bit halves.
void drop_copies_of_split_weights(PlanRequest& request, RequestRemarks& remarks) {
  if (!request.precision.copies_at_use || !splits_weights(request)) return;
  request.precision.copies_at_use = false;
  if (request.precision.fp8_codes_at_use) return;
  remarks.notes.emplace_back(
      "--weight_copies at_use has no effect here: matrix products read the upper halves of the fp32 weights, "
      "so no copies exist");
}

// Rounds the number of tokens of a bucket (batch size) up for fp8. The transposed fp8 codes of an activation have one byte per token in
// each row, and matrix products can only read rows that begin at multiples of 16 bytes.
Bucket bucket_in_precision(Bucket bucket, const PrecisionOptions& precision) {
  constexpr int64_t kMultiple = 16;
  if (precision.fp8) bucket.tokens = (bucket.tokens + kMultiple - 1) / kMultiple * kMultiple;
  return bucket;
}

// Returns the batch size with its number of tokens rounded up such that the ranks of a tensor-parallel group can divide them.
Bucket bucket_of_ranks(Bucket bucket, const RankOptions& ranks) {
  const int64_t multiple = ranks.row_multiple();
  bucket.tokens = (bucket.tokens + multiple - 1) / multiple * multiple;
  return bucket;
}

// Returns the size of the largest batch if the number of sequences, or the length of the longest sequence, changes.
Bucket bucket_of(const RunFacts& facts, const Bucket& own, int64_t sequences, int64_t longest) {
  Bucket bucket{.tokens = sequences * longest, .sequences = sequences, .longest = longest};
  if (facts.lengths == SequenceLengths::kAllLongest) return bucket;
  bucket.longest = std::min(longest, own.longest);
  bucket.tokens = std::min(own.tokens, sequences * bucket.longest);
  return bucket;
}

// Warns if --fp16 is used for a model that was trained in bf16. bf16 has the range of fp32, so activations of such a model, for example
// T5, may overflow in fp16.
void warn_of_bf16_checkpoint(const Arguments& arguments, const RunFacts& facts, RequestRemarks& remarks) {
  if (!arguments.fp16 && !arguments.fp16_full_eval) return;
  if (facts.model.source.dtype != "bfloat16") return;
  remarks.warnings.push_back(
      fmt::format("--{}: the model's config.json says that it was trained in bfloat16, whose range is that "
                  "of fp32; fp16 ends at 65504, so that activations may overflow and the loss become nan. "
                  "Prefer --bf16{}",
                  arguments.fp16 ? "fp16" : "fp16_full_eval", arguments.fp16 ? "" : "_full_eval"));
}

std::map<std::string, double> rate_factors_of(const Arguments& arguments) {
  std::map<std::string, double> factors;
  for (const auto& [pattern, text] : arguments.learning_rate_factors) {
    double factor = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
    const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(factor);
    if (!is_number || factor < 0) {
      throw_error(ErrorCode::kUsage,
                  "--learning_rate_factors {}={}: expected a finite number of at least 0 after '='", pattern,
                  text);
    }
    factors[pattern] = factor;
  }
  return factors;
}

double z_coefficient_of(const Arguments& arguments, const RunFacts& facts) {
  if (arguments.z_loss_coef == 0.0 || record_of(facts.problem_type).head->predicts_tokens)
    return arguments.z_loss_coef;
  throw_error(ErrorCode::kUsage,
              "--z_loss_coef {} needs a language model, whose loss is over its vocabulary, but this is a {} "
              "run: remove "
              "it, or give --problem_type causal_lm",
              arguments.z_loss_coef, problem_type_name(facts.problem_type));
}

// Checks that the ranks can be divided into groups of this size. For the error message, `settings` contains the arguments that request
// the groups, and `parts` the name of the groups. Errors: kUsage.
void require_groups_of_ranks(int64_t ranks, int64_t size, const std::string& settings,
                             const std::string& parts) {
  if (ranks % size == 0) return;
  throw_error(
      ErrorCode::kUsage,
      "{}: {} {} (--nproc_per_node x --nnodes) cannot be divided into {}; give --nproc_per_node {} or "
      "another multiple",
      settings, ranks, ranks == 1 ? "process" : "processes", parts, size);
}

// Returns the setting that states the size of a group of ranks that read the same batches.
std::string_view group_setting(const RankOptions& ranks) {
  return ranks.context_parallel ? "--cp_size" : "--tp_size";
}

// Returns how the ranks of a run exchange gradients. GPUs of one machine map each other's memory if they can. Errors: kUsage
// for a library of another kind of device.
RankOptions ranks_of(const Arguments& arguments, const DeviceOptions& device) {
  RankOptions ranks{.count = num_ranks(arguments),
                    .tensor_size = arguments.tp_size * arguments.cp_size,
                    .context_parallel = arguments.cp_size > 1,
                    .pipeline_size = arguments.pp_size};
  const std::string groups = fmt::format("groups of {}", ranks.tensor_size);
  const std::string stages = fmt::format("{} stages", ranks.pipeline_size);
  const std::string tp = fmt::format("{} {}", group_setting(ranks), ranks.tensor_size);
  const std::string pp = fmt::format("--pp_size {}", ranks.pipeline_size);
  require_groups_of_ranks(ranks.count, ranks.tensor_size, tp, groups);
  require_groups_of_ranks(ranks.count, ranks.pipeline_size, pp, stages);
  require_groups_of_ranks(ranks.count, ranks.tensor_size * ranks.pipeline_size, pp + " " + tp,
                          stages + " of " + groups);
  ranks.sequence_parallel = arguments.sequence_parallel;
  if (arguments.pipeline_schedule == "gpipe") ranks.schedule = PipelineSchedule::kGpipe;
  if (arguments.pipeline_schedule == "interleaved" && ranks.pipeline_size > 1) {
    ranks.schedule = PipelineSchedule::kInterleaved;
    ranks.chunks = arguments.pp_chunks;
  }
  if (!arguments.ddp_backend.empty() && (arguments.ddp_backend == "nccl") != device.is_gpu()) {
    throw_error(ErrorCode::kUsage,
                "--ddp_backend {}: this run is on {}, where processes exchange gradients through {}; omit it",
                arguments.ddp_backend, device.is_gpu() ? "GPUs" : "CPUs",
                device.is_gpu() ? "NCCL or mapped memory" : "gloo");
  }
  const bool can_map = device.is_gpu() && device.gpu.maps_peers && arguments.ddp_backend.empty() &&
                       !arguments.debug_allocations;
  ranks.maps_peers =
      can_map && ranks.data_size() > 1 && ranks.data_size() <= kMostPeers && arguments.nnodes == 1;
  // The ranks of a tensor-parallel group have consecutive numbers, so they are in one machine if the group size divides the ranks per
  // machine.
  ranks.tensor_maps_peers = can_map && ranks.tensor_size > 1 && ranks.tensor_size <= kMostPeers &&
                            (arguments.nnodes == 1 || arguments.nproc_per_node % ranks.tensor_size == 0);
  ranks.pipeline_maps_peers =
      can_map && ranks.pipeline_size > 1 && ranks.pipeline_size <= kMostPeers && arguments.nnodes == 1;
  ranks.updates_on_first = arguments.data_parallel_mode == "dp" && ranks.count > 1;
  ranks.least_divided_elements = arguments.stage3_param_persistence_threshold;
  ranks.keeps_gathered = !arguments.reshard_after_forward;
  if (arguments.ddp_bucket_cap_mb) ranks.bucket_bytes = *arguments.ddp_bucket_cap_mb << 20;
  return ranks;
}

// Returns the measurements for the kind of exchange that the ranks use; empty if there are none.
MeasuredLinks links_of(const LinkCalibration& calibration, const RankOptions& ranks,
                       const DeviceOptions& device) {
  const auto find = [&](LinkExchange exchange) {
    const auto found = calibration.exchanges.find(exchange);
    return found == calibration.exchanges.end() ? MeasuredLinks{} : found->second;
  };
  if (ranks.count != calibration.num_ranks) return {};
  if (!device.is_gpu()) return find(LinkExchange::kGloo);
  if (ranks.maps_any_peers()) return find(LinkExchange::kMappedMemory);
  MeasuredLinks with_p2p = find(LinkExchange::kNccl);
  return with_p2p.empty() ? find(LinkExchange::kNcclWithoutP2p) : with_p2p;
}

// Returns the links that the user names. Errors: kUsage for links that these ranks do not have.
RankLinks named_links_of(const RunFacts& facts, const RankOptions& ranks, int64_t num_machines) {
  const RankLinks& links = facts.ranks.links;
  if (ranks.count == 1) return {};
  if (!links.inside.empty() && !facts.device.is_gpu()) {
    throw_error(
        ErrorCode::kUsage,
        "--links {}: {} connects GPUs, but this run is on CPUs; name only the network between its machines, "
        "such as eth100, or give --device",
        links.inside, links.inside);
  }
  if (num_machines > 1 && !links.empty() && links.between.empty()) {
    throw_error(ErrorCode::kUsage,
                "--links {0}: this run is on {1} machines; also name the network between them, for example "
                "--links {0},ib400",
                links.inside, num_machines);
  }
  return links;
}

// Returns the ZeRO stage if --zero_stage is not given. Where GPUs map each other's memory, stage 1 sends as many bytes as stage 0, divides
// the time of the update among the ranks, and sends new weights while the next forward pass runs. With accumulation, where neither stage
// sends data during the backward pass, stage 1 sends weights during the update (an estimate; it was not measured). In all other cases the
// stage is 0, because stage 1 is not possible or was not measured. Adapters are so small that their update takes no time.
ZeroStage default_zero_stage(const PlanRequest& request) {
  const RankOptions& ranks = request.ranks;
  const bool is_faster = request.device.is_gpu() && ranks.maps_peers && ranks.data_size() > 1 &&
                         ranks.tensor_size == 1 && ranks.pipeline_size == 1 && !request.model.lora;
  const bool is_possible = request.update.optimizer.kind != OptimizerKind::kAdafactor &&
                           !request.update.in_backward && !request.update.offload_states;
  return is_faster && is_possible ? ZeroStage::kStates : ZeroStage::kNone;
}

// Returns the ZeRO stage: which values the ranks divide. Settings that cannot be combined with --zero_stage are refused in exclusions.cc.
ZeroStage zero_stage_of(const Arguments& arguments, const PlanRequest& request, RequestRemarks& remarks) {
  const RankOptions& ranks = request.ranks;
  if (ranks.updates_on_first) return ZeroStage::kStates;
  if (!arguments.zero_stage) return default_zero_stage(request);
  if (*arguments.zero_stage == 0) return ZeroStage::kNone;
  if (ranks.data_size() == 1) {
    const std::string_view reason =
        ranks.count == 1 ? "processes, and this run has one"
        : ranks.pipeline_size == 1
            ? "groups of processes that train on different batches, and this run has one group"
            : "the processes of a stage, and each stage has one";
    remarks.notes.push_back(fmt::format("--zero_stage {} has no effect here: it divides states among {}",
                                        *arguments.zero_stage, reason));
    return ZeroStage::kNone;
  }
  return static_cast<ZeroStage>(*arguments.zero_stage);
}

// Checks --train_batch_size, which states the number of sequences per step over all ranks. Errors: kUsage if the other settings result in
// another number.
void check_train_batch(const Arguments& arguments, const RankOptions& ranks) {
  if (!arguments.train_batch_size) return;
  const int64_t wanted = *arguments.train_batch_size;
  const int64_t batch = arguments.per_device_train_batch_size, steps = arguments.gradient_accumulation_steps;
  const int64_t groups = ranks.data_size();
  if (wanted % groups == 0 && wanted / groups == batch * steps) return;
  const bool has_steps = wanted % groups == 0 && wanted / groups % batch == 0;
  throw_error(ErrorCode::kUsage,
              "--train_batch_size {}: a step of this run has {} x {} x {} sequences "
              "(--per_device_train_batch_size x --gradient_accumulation_steps x processes{}); {}",
              wanted, batch, steps, groups,
              (ranks.tensor_size > 1 ? fmt::format(" / {}", group_setting(ranks)) : std::string()) +
                  (ranks.pipeline_size > 1 ? " / --pp_size" : ""),
              has_steps ? fmt::format("give --gradient_accumulation_steps {}", wanted / groups / batch)
                        : "change one of these numbers");
}

// Returns the share of tokens for which a run computes logits because they have a label. It is 1 for prediction, which needs the logits
// of every token, and for ranks that divide the rows of the logits.
double label_share_of(const Arguments& arguments, const RunFacts& facts) {
  if (arguments.cp_size > 1) return 1.0;
  const bool is_masked = task_of(facts.problem_type).labels == LabelKind::kMaskedToken;
  return is_masked && !facts.predicts ? arguments.mlm_probability : 1.0;
}

}  // namespace

std::optional<int64_t> memory_limit_of(const Arguments& arguments, const DeviceOptions& device) {
  if (!device.is_gpu()) return arguments.memory_limit;
  return std::min(arguments.memory_limit.value_or(device.gpu.memory_bytes), device.gpu.memory_bytes);
}

bool plans_full_evaluation(const Arguments& arguments) {
  return (arguments.bf16_full_eval || arguments.fp16_full_eval) && !arguments.do_train;
}

PlanRequest request_of(const Arguments& arguments, const RunFacts& facts, RequestRemarks& remarks) {
  PlanRequest request;
  request.train = facts.train;
  request.evaluate = facts.evaluate;
  request.model = {.config = facts.model,
                   .problem_type = facts.problem_type,
                   .label_smoothing = arguments.label_smoothing_factor,
                   .z_coefficient = z_coefficient_of(arguments, facts),
                   .label_share = label_share_of(arguments, facts),
                   .outputs_logits = task_of(facts.problem_type).has_logits || facts.predicts,
                   .freeze = arguments.freeze,
                   .rate_factors = rate_factors_of(arguments),
                   .lora = lora_of(arguments, facts.model, facts.adapter)};
  request.device = facts.device;
  const bool generates = facts.generation.longest_prompt > 0;
  if (generates) request.generation = generation_options(facts.generation);
  request.passes = facts.passes;
  request.ranks = ranks_of(arguments, facts.device);
  request.chunked_loss = chunked_loss_of(arguments, facts, remarks);
  request.precision = precision_of(arguments, facts.device, facts.train, remarks);
  request.update = update_of(arguments, facts.device, request.precision, facts.train, remarks);
  if (facts.train) request.ranks.zero_stage = zero_stage_of(arguments, request, remarks);
  check_tensor_parallelism(request);
  check_context_parallelism(request);
  request.ranks.stage = facts.ranks.stage;
  check_pipeline_parallelism(arguments, request);
  request.update.elements_at_once = facts.thresholds.elements_at_once;
  drop_copies_of_split_weights(request, remarks);
  request.offload.activations = facts.device.is_gpu() && facts.train && arguments.offload_activations;
  request.offload.least_bytes = facts.thresholds.least_offloaded_bytes;
  request.batches = {
      .train = bucket_of_ranks(bucket_in_precision(facts.train_bucket, request.precision), request.ranks),
      .evaluate = bucket_of_ranks(facts.evaluate_bucket, request.ranks),
      .generate = generates ? generation_bucket(facts.generation) : Bucket{},
      .accumulation_steps = arguments.gradient_accumulation_steps};
  request.recompute = recompute_of(arguments, facts);
  set_matmul_workspace(arguments, request, remarks);
  request.products.tuning = facts.tuning;
  request.memory_limit_bytes = memory_limit_of(arguments, facts.device);
  request.separate_buffers = arguments.debug_allocations;
  request.async_save = facts.train && arguments.async_save;
  request.captured_buckets =
      facts.captured.count ? facts.captured.count(request.batches) : facts.captured.buckets;
  request.host = host_memory_of(facts.host, facts.model, request.model.lora, facts.train_bucket);
  if (request.update.states_on_disk) request.host.io_bytes += kDiskBuffersBytes;
  if (generates) request.host.data_bytes += selection_bytes(facts.generation, facts.model.vocab_size);
  request.disk = facts.calibrations.disk;
  request.cpu_calibration = facts.calibrations.cpu;
  request.links = links_of(facts.calibrations.links, request.ranks, facts.device);
  request.named_links = named_links_of(facts, request.ranks, arguments.nnodes);
  request.num_machines = arguments.nnodes;
  warn_of_bf16_checkpoint(arguments, facts, remarks);
  return request;
}

PlanRequest request_of(const RunSpec& run) {
  RequestRemarks ignored;
  return request_of(run.arguments, run.facts, ignored);
}

RecomputeChosen recompute_chosen(const RunSpec& run) {
  if (run.facts.recompute) return RecomputeChosen::kByPolicy;
  if (run.arguments.recompute == "selective") return RecomputeChosen::kSelective;
  return run.arguments.recompute_budget ? RecomputeChosen::kByBudget : RecomputeChosen::kByPolicy;
}

RunSpec with_train_batch(RunSpec run, int64_t sequences, int64_t accumulation_steps) {
  run.arguments.per_device_train_batch_size = sequences;
  run.arguments.gradient_accumulation_steps = accumulation_steps;
  Bucket& bucket = run.facts.train_bucket;
  bucket = bucket_of(run.facts, bucket, sequences, bucket.longest);
  return run;
}

RunSpec with_evaluate_batch(RunSpec run, int64_t sequences) {
  run.arguments.per_device_eval_batch_size = sequences;
  Bucket& bucket = run.facts.evaluate_bucket;
  bucket = bucket_of(run.facts, bucket, sequences, bucket.longest);
  return run;
}

RunSpec with_longest(RunSpec run, int64_t longest) {
  if (record_of(run.facts.problem_type).head->predicts_tokens) {
    run.arguments.block_size = longest;
  } else {
    (run.arguments.dataset_name == "dummy" ? run.arguments.dummy_seq_length : run.arguments.max_seq_length) =
        longest;
  }
  for (Bucket* bucket : {&run.facts.train_bucket, &run.facts.evaluate_bucket})
    *bucket = bucket_of(run.facts, *bucket, bucket->sequences, longest);
  return run;
}

GenerationSizes generation_with_sequences(const RunFacts& facts, int64_t sequences_per_prompt) {
  return facts.sizes_with_sequences ? facts.sizes_with_sequences(sequences_per_prompt)
                                    : with_sequences(facts.generation, sequences_per_prompt);
}

RunSpec with_generation(RunSpec run, const GenerationSizes& sizes) {
  run.arguments.per_device_eval_batch_size = sizes.prompts_at_once;
  run.facts.generation = sizes;
  return run;
}

RunSpec with_recompute(RunSpec run, RecomputePolicy policy) {
  run.arguments.gradient_checkpointing.reset();
  run.arguments.activation_checkpointing.reset();
  run.arguments.recompute_budget.reset();
  run.arguments.recompute = recompute_policy_name(policy);
  run.facts.recompute.reset();
  return run;
}

void check_device_arguments(const Arguments& arguments, const DeviceOptions& device, bool trains) {
  // A plan with --bf16_full_eval is not checked here. Whether it trains depends on whether training data is found, and that is not known
  // yet.
  if (plans_full_evaluation(arguments)) return;
  RequestRemarks ignored;
  const PrecisionOptions precision = precision_of(arguments, device, trains, ignored);
  static_cast<void>(update_of(arguments, device, precision, trains, ignored));
  const RankOptions ranks = ranks_of(arguments, device);
  if (trains) check_train_batch(arguments, ranks);
}

PlanLabels labels_of(const Arguments& arguments, const DeviceOptions& device, ProblemType problem_type) {
  PlanLabels labels;
  const bool card_limits =
      device.is_gpu() && (!arguments.memory_limit || *arguments.memory_limit > device.gpu.memory_bytes);
  if (card_limits) labels.memory_limit = "the memory of " + device.gpu.name;
  if (record_of(problem_type).head->predicts_tokens) {
    labels.length_argument = "--block_size";
    labels.shorter_effect = "shorter blocks";
  } else if (arguments.dataset_name == "dummy") {
    labels.length_argument = "--dummy_seq_length";
    labels.shorter_effect = "shorter sequences";
  }
  return labels;
}

}  // namespace plimsoll
