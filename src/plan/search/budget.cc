#include "plan/search/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "graph/analysis/analysis.h"
#include "plan/anatomy/operations.h"
#include "plan/compile/graphs.h"
#include "plan/search/recompute_options.h"

namespace plimsoll {
namespace {

constexpr int kRoundsOfRefining = 8;
// Number of bisection steps for the limit of live bytes. Nine steps determine the limit with an error of 1/512 of the bytes that
// recomputation can save.
constexpr int kHalvings = 9;
// The search ends when at most this fraction of the budget remains unused.
constexpr double kNearEnough = 0.002;

double mib(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

// For each block and for the head: the bytes of the gradients that its backward pass creates and that stay live until the optimizer runs.
struct GradientBytes {
  std::vector<int64_t> of_block;
  int64_t of_head = 0;
};

GradientBytes gradient_bytes(const ProgramPlan& program, const std::vector<BlockOps>& blocks) {
  GradientBytes result{.of_block = std::vector<int64_t>(blocks.size(), 0)};
  const Graph& graph = program.graph;
  uint32_t first_of_blocks = static_cast<uint32_t>(graph.ops().size());
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (op.segment != Segment::kBackward || block_of(graph.module_name(op.module)).empty()) continue;
    first_of_blocks = std::min(first_of_blocks, i);
  }
  for (const TransientBuffer& buffer : program.buffers) {
    if (buffer.purpose != Purpose::kGradients || graph.ops()[buffer.last].segment != Segment::kOptimizer)
      continue;
    // Counts only values that an op of this run of the program computes, and skips values that the previous run left (deferred values).
    const Op& producer = graph.ops()[buffer.first];
    const std::string_view block = block_of(graph.module_name(producer.module));
    const auto it =
        std::find_if(blocks.begin(), blocks.end(), [&](const BlockOps& each) { return each.name == block; });
    if (it != blocks.end()) {
      result.of_block[static_cast<size_t>(it - blocks.begin())] += buffer.bytes;
    } else if (buffer.first < first_of_blocks) {
      result.of_head += buffer.bytes;
    }
  }
  return result;
}

class BudgetSearch {
 public:
  explicit BudgetSearch(const PlanRequest& request, PlanLabels labels = {})
      : request_(request), labels_(std::move(labels)) {
    request_.passes.dump = nullptr;
    request_.memory_limit_bytes.reset();
    for (const RecomputePolicy policy :
         {RecomputePolicy::kNone, RecomputePolicy::kCheap, RecomputePolicy::kFull}) {
      result_.policies.push_back(planned(std::string(recompute_policy_name(policy)), {.policy = policy}));
    }
  }

  BudgetChoice fastest_within(int64_t budget) {
    result_.budget_bytes = budget;
    for (const RecomputeOutcome& outcome : result_.policies) consider(outcome);
    // If the plan that recomputes nothing fits, no search is needed, because it is the fastest.
    if (result_.policies.front().total_bytes > result_.budget_bytes) {
      prepare_blocks();
      search_blocks();
    }
    if (!found_) refuse();
    return std::move(result_);
  }

  BudgetChoice smallest_within(double share_of_step) {
    const double most_ms = (1 + share_of_step) * cheap().step_ms;
    result_.best = cheap();
    for (const RecomputeOutcome& outcome : result_.policies) take_smaller(outcome, most_ms);
    prepare_blocks();
    search_time(most_ms);
    result_.budget_bytes = std::numeric_limits<int64_t>::max();
    return std::move(result_);
  }

 private:
  const RecomputeOutcome& none() const { return result_.policies[0]; }
  const RecomputeOutcome& cheap() const { return result_.policies[1]; }
  const RecomputeOutcome& full() const { return result_.policies[2]; }

  RecomputeOutcome planned(std::string name, RecomputeChoice choice) {
    request_.recompute = choice;
    if (!begun_) begun_ = begin_graphs(request_);
    const Plan plan = place_plan(request_, finish_graphs(request_, *begun_));
    ++result_.num_plans;
    if (!none_plan_) none_plan_ = plan;
    return {.name = std::move(name),
            .choice = std::move(choice),
            .total_bytes = plan.total_bytes(),
            .step_ms = operations_anatomy(plan).total().ms};
  }

  void consider(const RecomputeOutcome& outcome) {
    if (!smallest_ || outcome.total_bytes < smallest_->total_bytes) smallest_ = outcome;
    if (outcome.total_bytes > result_.budget_bytes) return;
    if (found_ && outcome.step_ms >= result_.best.step_ms) return;
    result_.best = outcome;
    found_ = true;
  }

  void take_smaller(const RecomputeOutcome& outcome, double most_ms) {
    if (outcome.step_ms > most_ms) return;
    const auto key = [](const RecomputeOutcome& each) { return std::pair(each.total_bytes, each.step_ms); };
    if (key(outcome) < key(result_.best)) result_.best = outcome;
  }

  void prepare_blocks() {
    blocks_ = forward_blocks(none_plan_->programs.at(kTrainProgram).graph);
    menu_ = recompute_options(none_plan_->request);
    if (menu_.options.empty()) return;
    const GradientBytes gradients = gradient_bytes(none_plan_->programs.at(kTrainProgram), blocks_);
    head_bytes_ = gradients.of_head;
    int64_t later = gradients.of_head;
    for (size_t i = blocks_.size(); i-- > 0;) {
      keep_blocks_.insert(keep_blocks_.begin(), {.options = menu_.options, .later_bytes = later});
      later += gradients.of_block[i];
    }
    bytes_beside_ = none_plan_->total_bytes() - none_plan_->programs.at(kTrainProgram).transient_bytes;
  }

  // Looks for the fastest set of recomputed values that fits into the budget: the solver finds it for a limit of live bytes, a plan is made
  // with it, and the limit is corrected by the difference between the bytes of the plan and the budget. If a plan exceeds the budget, all
  // later limits are smaller than the limit of that plan.
  void search_blocks() {
    if (menu_.options.empty()) return;
    int64_t limit = result_.budget_bytes - bytes_beside_;
    std::optional<int64_t> too_much;
    std::vector<size_t> before;
    for (int round = 0; round < kRoundsOfRefining && limit > 0; ++round) {
      const std::optional<RecomputeSolution> solution = choose_options(keep_blocks_, head_bytes_, limit);
      if (!solution || solution->options == before) return;
      before = solution->options;
      const RecomputeOutcome outcome = planned("chosen", choice_of(*solution));
      consider(outcome);
      const int64_t left = result_.budget_bytes - outcome.total_bytes;
      if (left < 0) too_much = std::min(too_much.value_or(limit), limit);
      if (left >= 0 && static_cast<double>(left) < kNearEnough * static_cast<double>(result_.budget_bytes))
        return;
      // The next limit is the peak that the solver estimates for this solution, plus the bytes of the budget that the plan of the solution
      // leaves unused.
      const int64_t next = std::max(solution->peak_bytes + left, left < 0 ? int64_t{0} : limit + left / 2);
      limit = too_much ? std::min(next, (*too_much + (left < 0 ? next : limit)) / 2) : next;
    }
  }

  // Looks for the set of recomputed values with the fewest bytes whose step is short enough: the solver finds it for a time of
  // recomputation, a plan is made with it, and the time is corrected by the difference between the planned and the allowed step. Then
  // bisects between a time that led to a short enough step and one that did not.
  void search_time(double most_ms) {
    if (menu_.options.empty()) return;
    double again_ms = most_ms - none().step_ms;
    double enough_ms = 0;
    double too_long_ms = again_ms + most_ms;
    for (int round = 0; round < kRoundsOfRefining; ++round) {
      const std::optional<RecomputeSolution> solution = smallest_solution(again_ms);
      double next_ms = too_long_ms;
      if (solution) {
        const RecomputeOutcome outcome = planned("chosen", choice_of(*solution));
        take_smaller(outcome, most_ms);
        const double left_ms = most_ms - outcome.step_ms;
        if (left_ms >= 0 && left_ms < kNearEnough * most_ms) return;
        (left_ms < 0 ? too_long_ms : enough_ms) = left_ms < 0 ? solution->ms : again_ms;
        next_ms = solution->ms + left_ms;
      } else {
        enough_ms = again_ms;
      }
      const bool is_between = next_ms > enough_ms && next_ms < too_long_ms;
      again_ms = is_between ? next_ms : (enough_ms + too_long_ms) / 2;
    }
  }

  // Finds the smallest limit of live bytes that can be met by recomputing for at most the time `again_ms`, and returns the fastest solution
  // for this limit. Limits below the live bytes with full recomputation are not tried, because the peak is then at an op whose memory
  // recomputation does not change.
  std::optional<RecomputeSolution> smallest_solution(double again_ms) const {
    std::optional<RecomputeSolution> best;
    const auto try_limit = [&](int64_t limit) {
      std::optional<RecomputeSolution> solution = choose_options(keep_blocks_, head_bytes_, limit);
      const bool is_fast = solution && solution->ms <= again_ms;
      if (is_fast) best = std::move(solution);
      return is_fast;
    };
    int64_t too_small = full().total_bytes - bytes_beside_;
    if (try_limit(too_small)) return best;
    int64_t enough = none().total_bytes - bytes_beside_;
    for (int i = 0; i < kHalvings && too_small < enough; ++i) {
      const int64_t limit = too_small + (enough - too_small) / 2;
      (try_limit(limit) ? enough : too_small) = limit;
    }
    return best;
  }

  RecomputeChoice choice_of(const RecomputeSolution& solution) const {
    RecomputeChoice choice{.policy = RecomputePolicy::kCheap};
    for (size_t i = 0; i < blocks_.size(); ++i) {
      choice.kept_of_block[blocks_[i].name] =
          names_of(none_plan_->programs.at(kTrainProgram).graph, blocks_[i], menu_.kept[solution.options[i]]);
    }
    return choice;
  }

  [[noreturn]] void refuse() const {
    throw_error(
        ErrorCode::kWillNotFit,
        "--recompute_budget {:.1f} MiB: nothing fits. The smallest total found is {:.1f} MiB ({}), {:.1f} "
        "MiB more; give --recompute_budget {:.0f}MiB, or a smaller --per_device_train_batch_size or {}",
        mib(result_.budget_bytes), mib(smallest_->total_bytes),
        smallest_->name == "chosen" ? "with every value recomputed that can be"
                                    : "--recompute " + smallest_->name,
        mib(smallest_->total_bytes - result_.budget_bytes), std::ceil(mib(smallest_->total_bytes)),
        labels_.length_argument);
  }

  PlanRequest request_;
  PlanLabels labels_;
  BudgetChoice result_;
  bool found_ = false;
  std::optional<PlanGraphs> begun_;
  std::optional<Plan> none_plan_;  // the plan that recomputes nothing
  std::optional<RecomputeOutcome> smallest_;
  std::vector<BlockOps> blocks_;
  RecomputeOptions menu_;
  std::vector<RecomputeBlock> keep_blocks_;
  int64_t head_bytes_ = 0;    // bytes of gradients that are live after the backward pass of the head
  int64_t bytes_beside_ = 0;  // total bytes of the plan minus the transient bytes of training
};

}  // namespace

BudgetChoice choose_recompute(const PlanRequest& request, int64_t budget_bytes, const PlanLabels& labels) {
  PLIMSOLL_CHECK(request.train, "a recomputation budget can only be chosen for a plan that trains");
  return BudgetSearch(request, labels).fastest_within(budget_bytes);
}

BudgetChoice choose_selective(const PlanRequest& request) {
  PLIMSOLL_CHECK(request.train, "selective recomputation can only be chosen for a plan that trains");
  return BudgetSearch(request).smallest_within(kSelectiveShareOfStep);
}

BudgetChoice choose_recompute_of(const RunSpec& run, const PlanRequest& request, const PlanLabels& labels) {
  if (recompute_chosen(run) == RecomputeChosen::kSelective) return choose_selective(request);
  PLIMSOLL_CHECK(
      run.arguments.recompute_budget.has_value(),
      "the run must have a recomputation budget or selective recomputation, but names another policy");
  return choose_recompute(request, *run.arguments.recompute_budget, labels);
}

std::string recompute_argument(const Arguments& arguments) {
  if (arguments.recompute == "selective") return "--recompute selective";
  return fmt::format("--recompute_budget {:.1f} MiB", mib(arguments.recompute_budget.value_or(0)));
}

std::string describe_budget_choice(const BudgetChoice& choice, std::string_view asked) {
  const double none_ms = choice.policies.front().step_ms;
  const auto words = [&](const RecomputeOutcome& outcome) {
    return fmt::format("{:.1f} MiB, {:+.1f} % time", mib(outcome.total_bytes),
                       none_ms > 0 ? 100.0 * (outcome.step_ms / none_ms - 1.0) : 0.0);
  };
  std::string text = fmt::format(
      "{}: {} ({})", asked,
      choice.best.name == "chosen" ? "a choice for each layer" : "--recompute " + choice.best.name,
      words(choice.best));
  text += "; compared with";
  for (const RecomputeOutcome& outcome : choice.policies) {
    text += fmt::format(" {} ({}{}),", outcome.name, words(outcome),
                        outcome.total_bytes > choice.budget_bytes ? ", too much" : "");
  }
  text.back() = '.';
  return text;
}

}  // namespace plimsoll
