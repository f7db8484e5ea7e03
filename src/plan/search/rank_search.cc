#include "plan/search/rank_search.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/run_on_threads.h"
#include "base/units.h"
#include "optim/optimizers.h"
#include "plan/anatomy/operations.h"
#include "plan/compile/stage_plan.h"
#include "plan/search/change.h"
#include "plan/search/fit_planner.h"
#include "plan/search/method_space.h"
#include "plan/search/shared_graphs.h"

namespace plimsoll {
namespace {

// The numbers of elements of the model's weights: of those that are trained and of those that are frozen.
struct WeightElements {
  int64_t trained = 0;
  int64_t frozen = 0;
};

WeightElements count_elements(PlanRequest request) {
  request.evaluate = false;
  request.passes.dump = nullptr;
  WeightElements elements;
  for (const WeightSpec& spec : begin_graphs(request).weights)
    (spec.trainable ? elements.trained : elements.frozen) += spec.elements();
  return elements;
}

std::vector<RankDivision> divisions_of(const RankQuestion& question, int64_t num_layers) {
  std::vector<RankDivision> divisions;
  const auto add = [&](int64_t tensor, int64_t pipeline, ZeroStage stage) {
    // If each part of the model is trained by only one rank, ZeRO has nothing to divide, so only stage 0 is planned.
    if (stage != ZeroStage::kNone && tensor * pipeline == question.ranks) return;
    divisions.push_back({.tensor_size = tensor, .pipeline_size = pipeline, .zero_stage = stage});
  };
  for (int64_t tensor = 1; tensor <= question.ranks_per_machine; ++tensor) {
    if (question.ranks_per_machine % tensor != 0) continue;
    for (const ZeroStage stage :
         {ZeroStage::kNone, ZeroStage::kStates, ZeroStage::kGradients, ZeroStage::kWeights})
      add(tensor, 1, stage);
    for (int64_t pipeline = 2; pipeline <= num_layers && question.ranks % (tensor * pipeline) == 0;
         pipeline *= 2) {
      // If groups of ranks train the same pipeline stage on different batches, they divide optimizer states, because this is as fast and
      // needs less memory.
      add(tensor, pipeline, tensor * pipeline < question.ranks ? ZeroStage::kStates : ZeroStage::kNone);
    }
  }
  return divisions;
}

// Returns the ways to split the batch of a group of ranks into micro-batches, the largest micro-batch first.
std::vector<FitShape> splits_of_group(int64_t sequences, int64_t longest) {
  std::vector<FitShape> splits;
  for (int64_t micro = sequences; micro >= 1; --micro) {
    if (sequences % micro == 0) splits.push_back({micro, sequences / micro, longest});
  }
  return splits;
}

RunSpec with_division(RunSpec run, const RankDivision& division) {
  run.arguments.tp_size = division.tensor_size;
  run.arguments.sequence_parallel = division.sequence_parallel;
  run.arguments.cp_size = division.context_size;
  run.arguments.pp_size = division.pipeline_size;
  run.arguments.zero_stage = static_cast<int64_t>(division.zero_stage);
  return run;
}

std::vector<std::string> arguments_of(const RankDivision& division, const RecomputePolicy* policy) {
  std::vector<std::string> words;
  if (division.tensor_size > 1)
    words.insert(words.end(), {"--tp_size", std::to_string(division.tensor_size)});
  if (division.sequence_parallel) words.insert(words.end(), {"--sequence_parallel", "True"});
  if (division.context_size > 1)
    words.insert(words.end(), {"--cp_size", std::to_string(division.context_size)});
  if (division.pipeline_size > 1)
    words.insert(words.end(), {"--pp_size", std::to_string(division.pipeline_size)});
  // If a run has one of the arguments above (--tp_size, --cp_size, --pp_size), ZeRO stage 0 is the default value, so it is left out.
  if (division.zero_stage != ZeroStage::kNone || words.empty())
    words.insert(words.end(), {"--zero_stage", std::to_string(static_cast<int>(division.zero_stage))});
  if (policy != nullptr)
    words.insert(words.end(), {"--recompute", std::string(recompute_policy_name(*policy))});
  return words;
}

// Searches for the fastest run with one division of the model among the ranks. An object is used by one thread.
class DivisionSearch {
 public:
  DivisionSearch(const RunSpec& run, const RankQuestion& question, const RankDivision& division,
                 const WeightElements& elements)
      : run_(with_division(run, division)), question_(question), division_(division), elements_(elements) {}

  RankSearch search() {
    try {
      Arguments asked = run_.arguments;
      resolve_arguments(asked);
      own_ = request_of(run_);
      plan_policies();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      result_.answers.clear();
      result_.refused.push_back({division_, reason_of(error.what())});
    }
    return std::move(result_);
  }

 private:
  void plan_policies() {
    const int64_t data_size = question_.ranks / division_.group_size();
    if (question_.effective_batch % data_size != 0) {
      throw_error(ErrorCode::kUsage,
                  "{} of processes cannot divide a step of {} (--effective_batch_size) evenly",
                  counted(data_size, "group"), counted(question_.effective_batch, "sequence"));
    }
    std::vector<FitShape> open =
        splits_of_group(question_.effective_batch / data_size, own_.batches.train.longest);
    leave_short_pipelines_out(open);
    std::vector<std::optional<RecomputePolicy>> policies{std::nullopt};
    for (const RecomputePolicy policy : stronger_policies(own_)) policies.emplace_back(policy);
    result_.num_choices = std::ssize(open) * std::ssize(policies);
    prune(open, std::ssize(policies));
    for (size_t i = 0; i < policies.size() && !open.empty(); ++i) {
      const auto before = std::ssize(open);
      plan_splits(policies[i], open);
      if (i == 0) result_.activations_exceed_memory = !open.empty();
      // A split of the batch that fits with this policy is not planned with policies that recompute more, because these are never
      // faster.
      result_.num_pruned +=
          (before - std::ssize(open)) * (std::ssize(policies) - 1 - static_cast<int64_t>(i));
    }
  }

  // Removes the splits of the batch with fewer micro-batches than pipeline stages, because stages would wait for most of a step. Keeps
  // those with the most micro-batches if all splits have too few.
  void leave_short_pipelines_out(std::vector<FitShape>& splits) const {
    const int64_t stages = division_.pipeline_size;
    if (stages == 1 || splits.empty()) return;
    const int64_t least = std::min(stages, splits.back().accumulation);
    std::erase_if(splits, [&](const FitShape& shape) { return shape.accumulation < least; });
  }

  // Removes the splits of the batch that exceed the memory with every recomputation policy, according to a lower bound. The bound depends
  // on whether gradients accumulate, because this determines their type.
  void prune(std::vector<FitShape>& splits, int64_t num_policies) {
    if (!own_.memory_limit_bytes) return;
    const auto is_too_large = [&](const FitShape& shape) {
      const PlanRequest request = request_of(with_train_batch(run_, shape.micro_batch, shape.accumulation));
      const int64_t least = least_rank_bytes(request, elements_.trained, elements_.frozen);
      if (least <= *own_.memory_limit_bytes) return false;
      note_bytes(least);
      return true;
    };
    result_.num_pruned += num_policies * static_cast<int64_t>(std::erase_if(splits, is_too_large));
  }

  void note_bytes(int64_t bytes) {
    if (result_.smallest_bytes == 0 || bytes < result_.smallest_bytes) result_.smallest_bytes = bytes;
  }

  // Plans the splits of the batch in `open` with a recomputation policy. Adds the fastest split that fits to the answers, and leaves only
  // splits that do not fit in `open`.
  void plan_splits(const std::optional<RecomputePolicy>& policy, std::vector<FitShape>& open) {
    const RunSpec run = policy ? with_recompute(run_, *policy) : run_;
    // For a pipeline, plans two stages: the first one, which stores the activations of the most micro-batches, and the last one, which has
    // the head of the model. In a search, all stages have the same number of layers.
    RunSpec last = run;
    last.facts.ranks.stage = division_.pipeline_size - 1;
    std::vector<FitPlanner> planners;
    planners.emplace_back(run, shared_);
    if (division_.pipeline_size > 1) planners.emplace_back(last, shared_);
    std::vector<std::pair<double, FitShape>> fitting;
    std::vector<FitShape> others;
    for (const FitShape& shape : open) {
      if (!planners.front().takes(shape)) continue;
      int64_t bytes = 0;
      double ms = 0;
      for (FitPlanner& planner : planners) {
        const FitNeeds needs = planner.placed(shape);
        bytes = std::max(bytes, needs.least_bytes);
        ms = std::max(ms, needs.ms_per_sample);
      }
      note_bytes(bytes);
      if (planners.front().fits(bytes)) {
        const auto waiting = static_cast<double>(division_.pipeline_size - 1);
        fitting.emplace_back(ms * (1 + waiting / static_cast<double>(shape.accumulation)), shape);
      } else {
        others.push_back(shape);
      }
    }
    for (const FitPlanner& planner : planners) result_.num_plans += planner.num_plans();
    open = std::move(others);
    std::ranges::stable_sort(fitting, {}, &std::pair<double, FitShape>::first);
    // The plan of an answer chooses its order of ops for the exact batch size, so it may need a little more memory than the search found.
    for (const auto& [ms, shape] : fitting) {
      if (confirm(run, policy, shape)) return;
    }
  }

  bool confirm(const RunSpec& run, const std::optional<RecomputePolicy>& policy, const FitShape& shape) {
    RunSpec split = with_train_batch(run, shape.micro_batch, shape.accumulation);
    Plan plan = build_plan(request_of(split), shared_);
    ++result_.num_plans;
    if (plan.is_pipelined()) {
      const auto largest = std::ranges::max_element(plan.stages, {}, &StagePlan::total_bytes);
      split.facts.ranks.stage = largest - plan.stages.begin();
      if (split.facts.ranks.stage != plan.request.ranks.stage) plan = build_plan(request_of(split));
    }
    const PlanRequest& request = plan.request;
    note_bytes(plan.total_bytes());
    if (!plan.fits()) return false;
    const OperationsAnatomy operations = operations_anatomy(plan);
    const MemoryAnatomy memory = memory_anatomy(plan);
    RankAnswer answer{.division = division_,
                      .recompute = request.recompute.policy,
                      .data_size = request.ranks.data_size(),
                      .micro_batch = shape.micro_batch,
                      .accumulation = shape.accumulation,
                      .total_bytes = plan.total_bytes(),
                      .by_purpose = memory.phases[memory.largest].by_purpose,
                      .communicator_bytes = plan.gpu_constant.communicator_bytes,
                      .step_ms = plan.is_pipelined() ? operations.pipeline_ms : operations.total().ms,
                      .exposed_ms = plan.is_pipelined()
                                        ? simulate_step(plan.stages, shape.accumulation).waiting_ms()
                                        : operations.group(OpGroup::kCommunication).ms,
                      .samples_per_s = operations.samples_per_s()};
    answer.arguments = arguments_of(division_, policy ? &*policy : nullptr);
    answer.arguments.insert(answer.arguments.end(),
                            {"--per_device_train_batch_size", std::to_string(shape.micro_batch),
                             "--gradient_accumulation_steps", std::to_string(shape.accumulation)});
    result_.answers.push_back(std::move(answer));
    return true;
  }

  RunSpec run_;
  const RankQuestion& question_;
  RankDivision division_;
  WeightElements elements_;
  PlanRequest own_;
  SharedGraphs shared_;
  RankSearch result_;
};

void add(RankSearch& all, RankSearch part) {
  std::ranges::move(part.answers, std::back_inserter(all.answers));
  std::ranges::move(part.refused, std::back_inserter(all.refused));
  all.num_choices += part.num_choices;
  all.num_pruned += part.num_pruned;
  all.num_plans += part.num_plans;
  if (part.smallest_bytes > 0 && (all.smallest_bytes == 0 || part.smallest_bytes < all.smallest_bytes))
    all.smallest_bytes = part.smallest_bytes;
}

// Searches with context parallelism (ranks divide the tokens of sequences), on the smallest number of ranks with which the batch fits. This
// is for steps whose sequences do not fit on one rank each, or that have fewer sequences than there are groups of ranks.
void try_contexts(const RunSpec& run, const RankQuestion& question, RankDivision division,
                  const WeightElements& elements, RankSearch& found) {
  for (int64_t size = 2; size <= question.ranks_per_machine && found.answers.empty(); size *= 2) {
    division.context_size = size;
    const bool has_groups =
        question.ranks_per_machine % size == 0 && question.ranks % division.group_size() == 0;
    const bool divides_nothing =
        division.zero_stage != ZeroStage::kNone && question.ranks == division.group_size();
    if (has_groups && !divides_nothing)
      add(found, DivisionSearch(run, question, division, elements).search());
  }
}

}  // namespace

std::string RankDivision::text() const {
  const std::vector<std::string> words = arguments_of(*this, nullptr);
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

RunSpec with_ranks(RunSpec run, const RankQuestion& question) {
  PLIMSOLL_CHECK(question.ranks_per_machine >= 1 && question.ranks % question.ranks_per_machine == 0,
                 "the number of ranks must be a multiple of the ranks per machine, but {} ranks on machines "
                 "with {} ranks are given",
                 question.ranks, question.ranks_per_machine);
  run.arguments.nproc_per_node = question.ranks_per_machine;
  run.arguments.nnodes = question.ranks / question.ranks_per_machine;
  return run;
}

int64_t least_rank_bytes(const PlanRequest& request, int64_t trained, int64_t frozen) {
  const RankOptions& ranks = request.ranks;
  const auto share = [&](ZeroStage stage) {
    const int64_t data = ranks.zero_stage >= stage && !ranks.updates_on_first ? ranks.data_size() : 1;
    const int64_t parts_of_layers = ranks.divides_layers() ? ranks.tensor_size : 1;
    return 1.0 / static_cast<double>(parts_of_layers * ranks.pipeline_size * data);
  };
  const PrecisionOptions& precision = request.precision;
  const auto whole = static_cast<double>(dtype_bytes(precision.dtype));
  const bool in_16_bits =
      precision.dtype == DType::kBF16 || (request.device.is_gpu() && precision.activation_dtype);
  const bool is_quantized = request.model.lora && request.model.lora->base_weights != BaseWeights::kAsLoaded;
  const double frozen_bytes = is_quantized ? 0.5 : precision.activation_dtype ? 2 : whole;
  const double trained_bytes = in_16_bits && request.update.offload_states ? 2 : whole;
  const double state_bytes =
      request.update.offload_states ? 0 : static_cast<double>(least_state_bytes(request.update.optimizer));
  const bool adds_in_f32 =
      request.batches.accumulation_steps > 1 && !precision.gradient_dtype && precision.dtype == DType::kF32;
  const double gradient_bytes = request.update.in_backward ? 0 : in_16_bits && !adds_in_f32 ? 2 : whole;
  const double weights =
      static_cast<double>(trained) * trained_bytes + static_cast<double>(frozen) * frozen_bytes;
  const double arena = share(ZeroStage::kWeights) * weights +
                       share(ZeroStage::kStates) * static_cast<double>(trained) * state_bytes +
                       share(ZeroStage::kGradients) * static_cast<double>(trained) * gradient_bytes;
  const int64_t constant = request.device.is_gpu() ? request.device.gpu.constant_bytes
                                                   : request.host.process_bytes + request.host.io_bytes;
  return static_cast<int64_t>(arena) + constant;
}

RankSearch search_ranks(const RunSpec& run, const RankQuestion& question) {
  PLIMSOLL_CHECK(question.effective_batch >= 1 && question.num_threads >= 1,
                 "the search needs a batch of at least 1 sequence and at least 1 thread, but is given {} "
                 "sequences and {} threads",
                 question.effective_batch, question.num_threads);
  RunSpec silent = run;
  silent.facts.passes.dump = nullptr;
  const PlanRequest own = request_of(silent);
  const WeightElements elements = count_elements(own);
  const std::vector<RankDivision> divisions = divisions_of(question, own.model.config.num_hidden_layers);
  std::vector<RankSearch> parts(divisions.size());
  for_each_of(divisions.size(), question.num_threads, [&](size_t i) {
    RankDivision division = divisions[i];
    parts[i] = DivisionSearch(silent, question, division, elements).search();
    const bool cannot_share_sequences =
        question.effective_batch % (question.ranks / division.group_size()) != 0;
    const bool lacks_room = parts[i].activations_exceed_memory || cannot_share_sequences;
    if (division.tensor_size == 1 && parts[i].answers.empty() && lacks_room)
      try_contexts(silent, question, division, elements, parts[i]);
    // Sequence parallelism takes more time and less memory, so it is only tried if activations do not fit without it.
    if (division.tensor_size == 1 || !parts[i].activations_exceed_memory) return;
    division.sequence_parallel = true;
    add(parts[i], DivisionSearch(silent, question, division, elements).search());
  });
  RankSearch all;
  for (RankSearch& part : parts) add(all, std::move(part));
  std::ranges::stable_sort(all.answers, std::ranges::greater(), &RankAnswer::samples_per_s);
  if (all.answers.size() > question.num_answers) all.answers.resize(question.num_answers);
  return all;
}

}  // namespace plimsoll
