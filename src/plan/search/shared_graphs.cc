#include "plan/search/shared_graphs.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace plimsoll {
namespace {

// Returns true if planning this request may need its graphs more than once, because the first plan may exceed the limit
// (plan_within_limit()).
bool may_begin_again(const PlanRequest& request) {
  return request.update.offload_states || request.offload.activations;
}

}  // namespace

// Graphs are not shared for a pipeline, whose stages have different graphs, nor for a plan that does not train, which has only one
// program.
bool SharedGraphs::shares_parts(const PlanRequest& request) const {
  return request.train && request.ranks.pipeline_size == 1 && request.generation.num_pages == 0 &&
         !request.passes.dump &&
         (chunked_ == ChunkedGraphs::kShared || !chunks_loss(request, request.batches.train));
}

template <typename Part>
SharedGraphs::Group<Part>& SharedGraphs::group_of(const PlanRequest& request, Groups<Part>& groups,
                                                  Alike alike) {
  const std::lock_guard lock(mutex_);
  for (Group<Part>& group : groups) {
    if (alike(group.request, request)) return group;
  }
  Group<Part>& group = groups.emplace_back();
  group.request = request;
  return group;
}

template <typename Part, typename Make>
Part SharedGraphs::part_of(Group<Part>& group, const Make& make) {
  const std::lock_guard lock(group.mutex);
  if (!group.part) group.part.emplace(make());
  if (group.announced == 0 || --group.announced > 0) return *group.part;
  Part part = std::move(*group.part);
  group.part.reset();
  return part;
}

void SharedGraphs::announce(const PlanRequest& request) {
  if (!shares_parts(request) || may_begin_again(request)) return;
  Group<PlanGraphs>& training = group_of(request, training_, share_begun_graphs);
  const bool is_first = training.announced++ == 0 && !training.part;
  if (is_first) ++group_of(request, gradients_, share_gradients).announced;
  if (request.evaluate) ++group_of(request, evaluation_, share_evaluation).announced;
}

PlanGraphs SharedGraphs::begun(const PlanRequest& request) {
  if (!shares_parts(request)) return begin_graphs(request);
  PlanGraphs graphs = part_of(group_of(request, training_, share_begun_graphs), [&] {
    GradientGraph gradients =
        part_of(group_of(request, gradients_, share_gradients), [&] { return begin_gradients(request); });
    PlanGraphs training{.weights = gradients.weights};
    training.programs.add(begin_training(request, std::move(gradients)));
    return training;
  });
  if (request.evaluate) {
    graphs.programs.add(part_of(group_of(request, evaluation_, share_evaluation), [&] {
      return build_evaluation(request, graphs.weights, graphs.programs.find(kTrainProgram));
    }));
  }
  return graphs;
}

Plan build_plan(const PlanRequest& request, SharedGraphs& shared) {
  if (request.ranks.pipeline_size > 1) return build_plan(request);
  const auto start = std::chrono::steady_clock::now();
  Plan plan = plan_within_limit(
      request, [&](const PlanRequest& each) { return finish_graphs(each, shared.begun(each)); });
  plan.build_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace plimsoll
