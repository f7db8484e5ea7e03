#include "plan/search/fit_search.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/run_on_threads.h"
#include "plan/compile/op_times.h"
#include "plan/search/fit_planner.h"

namespace plimsoll {
namespace {

// The number of sets of methods that are planned before the next sets are selected. It does not depend on the number of threads, so that
// the results do not depend on it either.
constexpr size_t kSetsAtOnce = 8;
// A method is worth adding to a set only if it reduces the step time to this fraction or less.
constexpr double kWorthHaving = 0.995;
// A larger set of methods is planned only if a lower bound of its step time is less than this fraction of the step time of the smaller set.
constexpr double kWorthLooking = 0.99;
// Limits for sets in which a search chooses individual values to recompute, which takes a tenth of a second each time: the number of these
// searches per set of methods, and the number of sets in which a recomputation budget replaces checkpointing.
constexpr int kMostChoices = 3;
constexpr size_t kMostBudgets = 6;

struct Split {
  FitShape shape = {};
  bool is_wanted = true;
  double least_ms = 0;  // lower bound of the time per sample, for all plans with this split of the batch
  std::optional<FitNeeds> needs = {};
};

enum class Stage : uint8_t { kToPlace, kToBuild, kDone };

struct Node {
  MethodSet set = {};
  MethodSet head = {};
  ExtentOfChange extent = {};
  std::vector<Split> splits = {};
  std::unique_ptr<FitPlanner> planner = {};
  Stage stage = Stage::kToPlace;
  std::optional<FitAnswer> answer = {};
  std::string refusal = {};

  bool fits(const Split& split) const { return split.needs && planner->fits(split.needs->least_bytes); }
};

// Returns true if a batch certainly takes at least as long with the larger set of methods. This is not certain if the additional methods
// change what is transferred between device and host, or at which time: with checkpointing there are fewer activations to transfer, with
// 16-bit copies made at use, the fp32 weights are not offloaded, and with updates in the backward pass, states can be transferred while it
// runs.
bool is_slower_than(const MethodSet& larger, const MethodSet& set) {
  if (!set.is_less_than(larger)) return false;
  const auto adds = [&](std::string_view name) { return larger.has(name) && !set.has(name); };
  if (set.has("offload_activations") && adds("checkpointing")) return false;
  return !set.has("offload_optimizer") || (!adds("copies_at_use") && !adds("optimizer_in_backward"));
}

// Returns true if the set has 16-bit gradients without effect, and so equals the set without them: if the run does not accumulate, a
// gradient has the type of its weight anyway.
bool is_another_set(const MethodSet& set, const FitShape& shape) {
  return shape.accumulation == 1 && (set.has("bf16_gradients") || set.has("fp16_gradients"));
}

bool has_redundant_methods(const FitAnswer& answer, const FitAnswer& other) {
  if (other.set.is_less_than(answer.set)) return answer.ms_per_sample > kWorthHaving * other.ms_per_sample;
  // A set that recomputes whole layers is simpler than one with a recomputation budget, so the one with the budget is kept only if it is
  // faster.
  const bool are_choices = answer.set.has_kind("recompute") && other.set.has_kind("recompute") &&
                           answer.set.without_kind("recompute") == other.set.without_kind("recompute");
  if (!are_choices || answer.set == other.set) return false;
  return answer.set.has("recompute_budget") ? answer.ms_per_sample > kWorthHaving * other.ms_per_sample
                                            : other.ms_per_sample <= kWorthHaving * answer.ms_per_sample;
}

class SetSearch {
 public:
  SetSearch(const MethodSpace& space, const FitQuestion& question) : space_(space), question_(question) {
    std::vector<Split> splits;
    for (const FitShape& shape : splits_of(question)) splits.push_back({.shape = shape});
    for (const MethodSet& head : space.base_sets()) add(head, head, splits);
  }

  FitSearch run() {
    for (std::vector<Node*> nodes = next(); !nodes.empty(); nodes = next()) {
      for_each_of(nodes.size(), question_.num_threads, [&](size_t i) { work_on(*nodes[i]); });
      for (Node* node : nodes) conclude(*node);
    }
    take_answers();
    try_budgets();
    take_answers();
    const size_t num_detailed = std::min(result_.answers.size(), question_.num_detailed);
    for_each_of(num_detailed, question_.num_threads, [&](size_t i) { add_details(result_.answers[i]); });
    for (const Node& node : nodes_) {
      if (!node.planner) continue;
      result_.num_sets += node.planner->num_plans() > 0 ? 1 : 0;
      result_.num_plans += node.planner->num_plans();
      result_.plan_ms += node.planner->plan_ms();
    }
    // plan_ms is summed over all threads; dividing it by their number gives the elapsed time.
    result_.plan_ms /= question_.num_threads;
    return std::move(result_);
  }

 private:
  struct Entry {
    double bound_ms = 0;
    int size = 0;
    size_t order = 0;
    Node* node = nullptr;
    bool operator>(const Entry& other) const {
      return std::tuple(bound_ms, size, order) > std::tuple(other.bound_ms, other.size, other.order);
    }
  };

  void add(const MethodSet& set, const MethodSet& head, std::vector<Split> splits) {
    if (!seen_.insert(set).second) return;
    for (Split& split : splits) {
      if (is_another_set(set, split.shape)) split.is_wanted = false;
    }
    Node& node = nodes_.emplace_back(
        Node{.set = set, .head = head, .extent = space_.extent(set), .splits = std::move(splits)});
    enter(node, [](const Split& split) { return split.is_wanted; });
  }

  // Adds a set to the queue, which is sorted by a lower bound of the time: the smallest one among the splits of the batch for which
  // `counts` returns true. Returns false if there is no such split.
  template <typename Counts>
  bool enter(Node& node, const Counts& counts) {
    std::optional<double> bound;
    for (const Split& split : node.splits) {
      if (counts(split)) bound = std::min(bound.value_or(split.least_ms), split.least_ms);
    }
    if (bound) queue_.push({*bound, node.set.size(), num_entered_++, &node});
    return bound.has_value();
  }

  // Returns true if this set of methods cannot be among the returned answers: enough answers certainly precede it in the order of
  // order_ties(), and one of these has no stronger effect on training. A faster answer precedes the set if it changes the run no more than
  // the set, or if the difference in speed is too large for a tie.
  bool is_beaten(const Entry& entry) const {
    size_t before = 0;
    bool is_as_alike = false;
    for (const FitAnswer& answer : result_.answers) {
      if (answer.ms_per_sample > entry.bound_ms) continue;
      is_as_alike = is_as_alike || answer.extent.effect <= entry.node->extent.effect;
      const bool changes_no_more = answer.extent <= entry.node->extent;
      // In a tie, order_ties() may put an answer that changes training less before the fastest one, although it is slower by the error of
      // estimates. The tie then includes answers that are slower than this first one by the same error.
      const double last_of_tie = (1 + kEstimateError) * answer.ms_per_sample;
      before += changes_no_more || !is_tie(last_of_tie, entry.bound_ms) ? 1 : 0;
    }
    return before >= question_.num_answers && (is_as_alike || !question_.of_each_effect);
  }

  std::vector<Node*> next() {
    std::vector<Node*> nodes;
    while (!queue_.empty() && nodes.size() < kSetsAtOnce) {
      Entry entry = queue_.top();
      queue_.pop();
      Node& node = *entry.node;
      if (is_compared_with(node)) {
        nodes.push_back(&node);
        continue;
      }
      if (is_beaten(entry) || !is_worth_its_methods(node)) continue;
      const double bound = bound_of(node);
      if (bound <= entry.bound_ms) {
        nodes.push_back(&node);
      } else {
        entry.bound_ms = bound;
        queue_.push(entry);
      }
    }
    return nodes;
  }

  // A set that only changes the precision is always planned, even if it does not fit: the times of its forward and backward passes are
  // lower bounds for all sets with this precision.
  static bool is_compared_with(const Node& node) { return node.set.without_kind("precision").empty(); }

  // Returns a lower bound of the time per step with this set of methods: the smallest one among the ways to split the batch that are
  // still candidates.
  double bound_of(Node& node) const {
    const Node* alone = nullptr;
    for (const Node& other : nodes_) {
      if (is_compared_with(other) && other.planner && other.set == node.set.only_kind("precision"))
        alone = &other;
    }
    const bool has_part = node.set.has_kind("trained part");
    std::optional<double> bound;
    for (size_t i = 0; i < node.splits.size(); ++i) {
      Split& split = node.splits[i];
      if (!split.is_wanted || (node.stage == Stage::kToBuild && !node.fits(split))) continue;
      if (alone != nullptr && !has_part && alone->splits[i].needs)
        split.least_ms = std::max(split.least_ms, alone->splits[i].needs->passes_ms);
      bound = std::min(bound.value_or(split.least_ms), split.least_ms);
    }
    return bound.value_or(0);
  }

  // Drops each split of the batch that also fits with fewer methods, because a set with fewer methods is never slower. Returns false if no
  // split is left.
  bool is_worth_its_methods(Node& node) const {
    for (const Node& other : nodes_) {
      if (other.head != node.head || !other.planner || !is_slower_than(node.set, other.set)) continue;
      for (size_t i = 0; i < node.splits.size(); ++i) {
        if (other.fits(other.splits[i])) node.splits[i].is_wanted = false;
      }
    }
    return std::ranges::any_of(node.splits, [&](const Split& split) {
      return split.is_wanted && (node.stage == Stage::kToPlace || node.fits(split));
    });
  }

  void work_on(Node& node) {
    try {
      if (node.stage == Stage::kToPlace) {
        place(node);
      } else {
        build(node);
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      node.refusal = error.what();
    }
  }

  void place(Node& node) {
    node.planner = std::make_unique<FitPlanner>(space_, node.set, shared_);
    for (Split& split : node.splits) {
      if (!split.is_wanted || !node.planner->takes(split.shape)) continue;
      const int64_t least = space_.least_bytes(node.set, split.shape.accumulation);
      if (!is_compared_with(node) && !node.planner->fits(least)) continue;
      split.needs = node.planner->placed(split.shape);
      split.least_ms = std::max(split.least_ms, split.needs->least_ms);
    }
  }

  // Finds the fastest split of the batch whose plan fits. Splits are tried from the fastest on, by the times that FitPlanner::placed()
  // computes from graphs that were built for another batch shape. These times are exact, except for sets that choose individual values to
  // recompute, for which they are lower bounds.
  void build(Node& node) {
    const RecomputeChosen chosen = node.planner->chosen();
    const bool by_budget = chosen == RecomputeChosen::kByBudget;
    std::vector<const Split*> splits;
    for (const Split& split : node.splits) {
      if (split.is_wanted && node.fits(split)) splits.push_back(&split);
    }
    std::ranges::stable_sort(splits, {}, [&](const Split* split) {
      return by_budget ? split->least_ms : split->needs->ms_per_sample;
    });
    int num_choices = 0;
    for (const Split* split : splits) {
      if (node.answer && (!by_budget || split->least_ms >= node.answer->ms_per_sample)) break;
      if (chosen != RecomputeChosen::kByPolicy && ++num_choices > kMostChoices) break;
      const std::optional<FitNeeds> needs = node.planner->built(split->shape);
      if (!needs || !node.planner->fits(needs->bytes)) continue;
      if (node.answer && needs->ms_per_sample >= node.answer->ms_per_sample) continue;
      node.answer = FitAnswer{.set = node.set,
                              .extent = node.extent,
                              .micro_batch = split->shape.micro_batch,
                              .accumulation = split->shape.accumulation,
                              .total_bytes = needs->bytes,
                              .ms_per_sample = needs->ms_per_sample};
    }
  }

  void conclude(Node& node) {
    if (!node.refusal.empty()) {
      result_.refused.push_back({node.set, node.refusal});
      node.stage = Stage::kDone;
      return node.planner->release();
    }
    if (node.stage == Stage::kToPlace) {
      if (node.set.empty()) note_own_bytes(node);
      node.stage = Stage::kToBuild;
      if (enter(node, [&](const Split& split) { return node.fits(split); })) return;
    }
    node.stage = Stage::kDone;
    if (node.answer) record(*node.answer);
    add_larger(node);
    node.planner->release();
  }

  void note_own_bytes(const Node& node) {
    for (const Split& split : node.splits) {
      if (!split.needs) continue;
      const int64_t bytes = split.needs->least_bytes;
      if (result_.own_bytes == 0 || bytes < result_.own_bytes) result_.own_bytes = bytes;
    }
  }

  void record(const FitAnswer& answer) {
    std::vector<FitAnswer>& answers = result_.answers;
    if (std::ranges::any_of(answers,
                            [&](const FitAnswer& other) { return has_redundant_methods(answer, other); }))
      return;
    std::erase_if(answers, [&](const FitAnswer& other) { return has_redundant_methods(other, answer); });
    answers.push_back(answer);
  }

  // Adds the sets with one method more than the set of this node to the queue. They are tried only with splits of the batch that do not fit
  // without the method and that may be faster than the split that does fit.
  void add_larger(const Node& node) {
    std::vector<Split> splits;
    bool any = false;
    for (const Split& split : node.splits) {
      const bool is_faster = !node.answer || split.least_ms < kWorthLooking * node.answer->ms_per_sample;
      splits.push_back({.shape = split.shape,
                        .is_wanted = split.is_wanted && is_faster && !node.fits(split),
                        .least_ms = split.least_ms});
      any = any || splits.back().is_wanted;
    }
    if (!any) return;
    for (const MethodSet& more : space_.with_one_more(node.set)) {
      std::vector<Split> bounded = splits;
      for (size_t i = 0; i < splits.size(); ++i) {
        if (splits[i].is_wanted)
          bounded[i].least_ms = std::max(splits[i].least_ms, link_ms(node, node.splits[i], more));
      }
      add(more, node.head, std::move(bounded));
    }
  }

  // Returns a lower bound of the time per sample for copies in the larger set `more`. The larger set only fits if it moves enough bytes to
  // the host: at least those by which the smaller set exceeds the limit. States are transferred once per step, in both directions at the
  // same time; activations are transferred with each micro-batch.
  double link_ms(const Node& node, const Split& split, const MethodSet& more) const {
    const PlanRequest& request = space_.own_request();
    const bool moves_states = more.has("offload_optimizer") && !node.set.has("offload_optimizer");
    const bool moves_saved = more.has("offload_activations") && !node.set.has("offload_activations");
    if ((!moves_states && !moves_saved) || !request.memory_limit_bytes) return 0;
    const int64_t bytes =
        split.needs ? split.needs->least_bytes : space_.least_bytes(node.set, split.shape.accumulation);
    const auto missing = static_cast<double>(std::max<int64_t>(0, bytes - *request.memory_limit_bytes));
    if (moves_states) {
      return missing / link_bytes_per_ms(request, LinkUse::kBothWays) /
             static_cast<double>(question_.effective_batch);
    }
    return missing / link_bytes_per_ms(request, LinkUse::kOneWay) /
           static_cast<double>(split.shape.micro_batch);
  }

  // If the batch does not fit with the recomputation policy of the run itself, each set of methods that recomputes whole layers is planned
  // a second time, with a recomputation budget instead: the run then recomputes only as much as the memory requires.
  void try_budgets() {
    std::vector<Node*> nodes;
    for (const FitAnswer& answer : result_.answers) {
      const std::optional<MethodSet> set = space_.with_budget(answer.set);
      if (!set || !seen_.insert(*set).second || nodes.size() == kMostBudgets) continue;
      std::vector<Split> splits = node_of(answer.set).splits;
      for (Split& split : splits) split.needs.reset();
      nodes.push_back(&nodes_.emplace_back(
          Node{.set = *set, .head = *set, .extent = space_.extent(*set), .splits = std::move(splits)}));
    }
    for_each_of(nodes.size(), question_.num_threads, [&](size_t i) {
      work_on(*nodes[i]);
      if (nodes[i]->refusal.empty()) nodes[i]->stage = Stage::kToBuild;
      if (nodes[i]->refusal.empty()) work_on(*nodes[i]);
      nodes[i]->planner->release();
    });
    for (const Node* node : nodes) {
      if (node->answer) record(*node->answer);
    }
  }

  const Node& node_of(const MethodSet& set) const { return *std::ranges::find(nodes_, set, &Node::set); }

  // Sorts the answers and keeps the first ones. If of_each_effect is set, also keeps the fastest answer and, for each effect on training,
  // the first answer with this effect.
  void take_answers() {
    std::vector<FitAnswer>& answers = result_.answers;
    order_ties(
        std::span(answers), [](const FitAnswer& answer) { return answer.ms_per_sample; },
        [](const FitAnswer& answer) { return answer.extent; });
    if (answers.empty()) return;
    const double fastest_ms = std::ranges::min(answers, {}, &FitAnswer::ms_per_sample).ms_per_sample;
    std::vector<FitAnswer> taken;
    std::optional<Effect> least;
    for (const FitAnswer& answer : answers) {
      const bool is_more_alike = !least || answer.extent.effect < *least;
      const bool is_wanted =
          question_.of_each_effect && (is_more_alike || answer.ms_per_sample == fastest_ms);
      if (taken.size() >= question_.num_answers && !is_wanted) continue;
      taken.push_back(answer);
      least = std::min(least.value_or(answer.extent.effect), answer.extent.effect);
    }
    answers = std::move(taken);
  }

  void add_details(FitAnswer& answer) {
    FitPlanner& planner = *std::ranges::find(nodes_, answer.set, &Node::set)->planner;
    const FitShape shape{answer.micro_batch, answer.accumulation, question_.longest};
    const FitLimits limits = find_limits(planner, shape, question_.largest_batch, question_.most_tokens);
    answer.largest_batch = limits.largest_batch;
    answer.longest_sequence = limits.longest_sequence;
    planner.release();
  }

  const MethodSpace& space_;
  const FitQuestion& question_;
  SharedGraphs shared_;
  std::deque<Node> nodes_;
  std::set<MethodSet> seen_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  size_t num_entered_ = 0;
  FitSearch result_;
};

void check(const FitQuestion& question) {
  PLIMSOLL_CHECK(
      question.effective_batch >= 1 && question.longest >= 1,
      "a batch must have at least 1 sequence with at least 1 token, but has {} sequences of {} tokens",
      question.effective_batch, question.longest);
  PLIMSOLL_CHECK(question.num_threads >= 1, "the search needs at least 1 thread, but is given {}",
                 question.num_threads);
}

}  // namespace

std::vector<FitShape> splits_of(const FitQuestion& question) {
  const int64_t effective = question.effective_batch;
  const int64_t most = question.most_sequences > 0 ? std::min(question.most_sequences, effective) : effective;
  std::vector<FitShape> shapes;
  for (int64_t micro = most; micro >= 1; --micro) {
    if (effective % micro == 0) shapes.push_back({micro, effective / micro, question.longest});
  }
  return shapes;
}

FitSearch search_fit(const MethodSpace& space, const FitQuestion& question) {
  check(question);
  return SetSearch(space, question).run();
}

}  // namespace plimsoll
