#include "plan/search/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/analysis/blocks.h"
#include "plan/anatomy/operations.h"
#include "plan/build/begun_graphs.h"
#include "plan/search/keep_menu.h"

namespace plimsoll {
namespace {

constexpr int kRoundsOfRefining = 8;
// A budget that is used up to this share is used up.
constexpr double kNearEnough = 0.002;

double mib(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

// Gradients that each block's backward pass leaves behind until the optimizer, and those of the head.
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
    const Op& producer = graph.op(graph.value(buffer.root).producer);
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
  BudgetSearch(const PlanRequest& request, int64_t budget) : request_(request) {
    request_.passes.dump = nullptr;
    request_.memory_limit_bytes.reset();
    result_.budget_bytes = budget;
  }

  BudgetChoice run() {
    for (const RecomputePolicy policy : {RecomputePolicy::kNone, RecomputePolicy::kCheap,
                                         RecomputePolicy::kSelective, RecomputePolicy::kFull}) {
      RecomputeOutcome outcome = planned(std::string(recompute_policy_name(policy)), {.policy = policy});
      consider(outcome);
      result_.policies.push_back(std::move(outcome));
    }
    // What keeps everything cannot be beaten.
    if (result_.policies.front().total_bytes > result_.budget_bytes) search_blocks();
    if (!found_) refuse();
    return std::move(result_);
  }

 private:
  RecomputeOutcome planned(std::string name, RecomputeChoice choice) {
    request_.recompute = choice;
    if (!begun_) begun_ = begin_graphs(request_);
    const Plan plan = place_plan(request_, finish_graphs(request_, *begun_));
    ++result_.num_plans;
    if (!none_) none_ = plan;
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

  // Solves for a limit of live bytes, plans the solution, and corrects the limit by what the plan needs more
  // or less than the budget. Limits that turned out too large bound the next ones.
  void search_blocks() {
    const Graph& graph = none_->train->graph;
    blocks_ = forward_blocks(graph);
    const PlanRequest& request = none_->request;
    menu_ = keep_menu(request);
    if (menu_.options.empty()) return;
    const GradientBytes gradients = gradient_bytes(*none_->train, blocks_);
    std::vector<KeepBlock> blocks;
    int64_t later = gradients.of_head;
    for (size_t i = blocks_.size(); i-- > 0;) {
      blocks.insert(blocks.begin(), {.options = menu_.options, .later_bytes = later});
      later += gradients.of_block[i];
    }
    const int64_t beside = none_->total_bytes() - none_->train->transient_bytes;
    int64_t limit = result_.budget_bytes - beside;
    std::optional<int64_t> too_much;
    std::vector<size_t> before;
    for (int round = 0; round < kRoundsOfRefining && limit > 0; ++round) {
      const std::optional<KeepSolution> solution = choose_options(blocks, gradients.of_head, limit);
      if (!solution || solution->options == before) return;
      before = solution->options;
      const RecomputeOutcome outcome = planned("chosen", choice_of(*solution));
      consider(outcome);
      const int64_t left = result_.budget_bytes - outcome.total_bytes;
      if (left < 0) too_much = std::min(too_much.value_or(limit), limit);
      if (left >= 0 && static_cast<double>(left) < kNearEnough * static_cast<double>(result_.budget_bytes))
        return;
      // The next limit is what this solution was thought to need, and what is left.
      const int64_t next = std::max(solution->peak_bytes + left, left < 0 ? int64_t{0} : limit + left / 2);
      limit = too_much ? std::min(next, (*too_much + (left < 0 ? next : limit)) / 2) : next;
    }
  }

  RecomputeChoice choice_of(const KeepSolution& solution) const {
    RecomputeChoice choice{.policy = RecomputePolicy::kCheap};
    for (size_t i = 0; i < blocks_.size(); ++i) {
      choice.kept_of_block[blocks_[i].name] =
          names_of(none_->train->graph, blocks_[i], menu_.kept[solution.options[i]]);
    }
    return choice;
  }

  [[noreturn]] void refuse() const {
    throw_error(
        ErrorCode::kWillNotFit,
        "--recompute_budget {:.1f} MiB: nothing fits. The smallest total found is {:.1f} MiB ({}), {:.1f} "
        "MiB more; give --recompute_budget {:.0f}MiB, or a smaller --per_device_train_batch_size or "
        "--max_seq_length",
        mib(result_.budget_bytes), mib(smallest_->total_bytes),
        smallest_->name == "chosen" ? "with all that can be computed again"
                                    : "--recompute " + smallest_->name,
        mib(smallest_->total_bytes - result_.budget_bytes), std::ceil(mib(smallest_->total_bytes)));
  }

  PlanRequest request_;
  BudgetChoice result_;
  bool found_ = false;
  std::optional<PlanGraphs> begun_;
  std::optional<Plan> none_;  // the plan that keeps everything
  std::optional<RecomputeOutcome> smallest_;
  std::vector<BlockOps> blocks_;
  KeepMenu menu_;
};

}  // namespace

BudgetChoice choose_recompute(const PlanRequest& request, int64_t budget_bytes) {
  PLIMSOLL_CHECK(request.train, "a budget of recomputation for a plan that does not train");
  return BudgetSearch(request, budget_bytes).run();
}

std::string budget_words(const BudgetChoice& choice) {
  const double none_ms = choice.policies.front().step_ms;
  const auto words = [&](const RecomputeOutcome& outcome) {
    return fmt::format("{:.1f} MiB, {:+.1f} % time", mib(outcome.total_bytes),
                       none_ms > 0 ? 100.0 * (outcome.step_ms / none_ms - 1.0) : 0.0);
  };
  std::string text = fmt::format(
      "--recompute_budget {:.1f} MiB: {} ({})", mib(choice.budget_bytes),
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
