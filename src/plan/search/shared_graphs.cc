#include "plan/search/shared_graphs.h"

#include <algorithm>
#include <chrono>

namespace plimsoll {

PlanGraphs SharedGraphs::begun(const PlanRequest& request) {
  // Graphs with logits in chunks depend on the bucket and are begun each time.
  if (chunks_loss(request, request.batches.train)) return begin_graphs(request);
  Group* group = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto it = std::ranges::find_if(
        groups_, [&](const Group& each) { return share_begun_graphs(each.request, request); });
    if (it == groups_.end()) groups_.emplace_back().request = request;
    group = it == groups_.end() ? &groups_.back() : &*it;
  }
  const std::lock_guard lock(group->mutex);
  if (!group->graphs) group->graphs = begin_graphs(request);
  return *group->graphs;
}

Plan build_plan(const PlanRequest& request, SharedGraphs& shared) {
  // The graphs of each stage of a pipeline are its own.
  if (request.ranks.pipeline_size > 1) return build_plan(request);
  const auto start = std::chrono::steady_clock::now();
  Plan plan = plan_within_limit(
      request, [&](const PlanRequest& each) { return finish_graphs(each, shared.begun(each)); });
  plan.build_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace plimsoll
