// Finds the arguments with which a run needs the least memory.
#include <algorithm>
#include <tuple>

#include "base/run_on_threads.h"
#include "plan/search/fit_search.h"

namespace plimsoll {
namespace {

// The number of runs that are planned before the bounds of the remaining runs are compared with the best result. It does not depend on the
// number of threads, so that the number of plans does not depend on it either.
constexpr size_t kRunsAtOnce = 8;

struct Run {
  MethodSet set = {};
  FitShape shape = {};
  int64_t least_bytes = 0;
  std::optional<int64_t> bytes = {};
  int64_t num_plans = 0;
};

// Only two micro-batch sizes can need the fewest bytes: one sequence, because a smaller micro-batch never needs more, and all sequences,
// because then no gradients are kept between micro-batches.
std::vector<FitShape> shapes_of(const FitQuestion& question) {
  const std::vector<FitShape> splits = splits_of(question);
  std::vector<FitShape> shapes{splits.back()};
  if (splits.front().accumulation == 1 && splits.size() > 1) shapes.push_back(splits.front());
  return shapes;
}

// Returns true if a set with fewer methods has the same memory plan. This is the case with TF32, because the ops are the same, and with
// 16-bit gradients without accumulation, because a gradient then has the type of its weight anyway.
bool is_planned_alike(const MethodSet& set, const FitShape& shape) {
  const bool has_other_gradients = set.has("bf16_gradients") || set.has("fp16_gradients");
  return set.has("tf32") || set.has("tf32x3") || (shape.accumulation == 1 && has_other_gradients);
}

std::vector<Run> runs_of(const MethodSpace& space, const FitQuestion& question) {
  std::vector<Run> runs;
  for (const MethodSet& set : space.all_fixed()) {
    for (const FitShape& shape : shapes_of(question)) {
      if (is_planned_alike(set, shape)) continue;
      runs.push_back({.set = set, .shape = shape, .least_bytes = space.least_bytes(set, shape.accumulation)});
    }
  }
  // Among runs with equal bounds, those with the most methods come first, because they are likely to need the least memory.
  std::ranges::stable_sort(runs, {},
                           [](const Run& run) { return std::tuple(run.least_bytes, -run.set.size()); });
  return runs;
}

void plan_one(const MethodSpace& space, SharedGraphs& shared, Run& run) {
  try {
    FitPlanner planner(space, run.set, shared);
    if (!planner.takes(run.shape)) return;
    run.bytes = planner.placed(run.shape).bytes;
    run.num_plans = planner.num_plans();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
  }
}

}  // namespace

std::optional<MinimumMemoryRun> minimum_memory_run(const MethodSpace& space, const FitQuestion& question) {
  std::vector<Run> runs = runs_of(space, question);
  SharedGraphs shared;
  std::optional<MinimumMemoryRun> smallest;
  int64_t num_plans = 0;
  for (size_t first = 0; first < runs.size(); first += kRunsAtOnce) {
    if (smallest && runs[first].least_bytes > smallest->total_bytes) break;
    const size_t count = std::min(kRunsAtOnce, runs.size() - first);
    for_each_of(count, question.num_threads, [&](size_t i) {
      Run& run = runs[first + i];
      if (!smallest || run.least_bytes <= smallest->total_bytes) plan_one(space, shared, run);
    });
    for (size_t i = first; i < first + count; ++i) {
      num_plans += runs[i].num_plans;
      if (!runs[i].bytes) continue;
      const auto key = [](int64_t bytes, const MethodSet& set) { return std::pair(bytes, set.size()); };
      if (smallest && key(*runs[i].bytes, runs[i].set) >= key(smallest->total_bytes, smallest->set)) continue;
      smallest = {.set = runs[i].set, .shape = runs[i].shape, .total_bytes = *runs[i].bytes};
    }
  }
  if (smallest) smallest->num_plans = num_plans;
  return smallest;
}

}  // namespace plimsoll
