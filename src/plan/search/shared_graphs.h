// Keeps the first parts of graphs, so that a search builds each part once. Many plans share them, because they differ only in decisions
// that come later: sizes of batches, recomputation, offloading, the optimizer. Thread-safe.
#pragma once

#include <list>
#include <mutex>
#include <optional>

#include "plan/compile/graphs.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// States whether graphs with chunked logits are kept. They depend on the batch size, so a search over batch sizes uses kBegunEachTime,
// which builds them again for every request and keeps none of them.
enum class ChunkedGraphs : uint8_t { kBegunEachTime, kShared };

class SharedGraphs {
 public:
  explicit SharedGraphs(ChunkedGraphs chunked = ChunkedGraphs::kBegunEachTime) : chunked_(chunked) {}

  // Announces that begun() will be called with this request later. Such a call gets a copy of a stored part of a graph, except the last
  // announced one: it gets the part itself, which is then no longer stored.
  void announce(const PlanRequest& request);

  // Returns the result of begin_graphs() for the request. Errors: as begin_graphs().
  PlanGraphs begun(const PlanRequest& request);

 private:
  // Returns true if the graphs of this request are kept for other requests with equal graphs.
  bool shares_parts(const PlanRequest& request) const;

  // A part of the graphs, such as the evaluation program, that is the same for a group of requests; set once it has been built. `request`
  // is one request of the group.
  template <typename Part>
  struct Group {
    PlanRequest request = {};
    std::mutex mutex = {};
    std::optional<Part> part = {};
    int announced = 0;
  };
  template <typename Part>
  using Groups = std::list<Group<Part>>;
  using Alike = bool (*)(const PlanRequest&, const PlanRequest&);

  // Returns the group to which the request belongs, creating it if necessary.
  template <typename Part>
  Group<Part>& group_of(const PlanRequest& request, Groups<Part>& groups, Alike alike);
  // Returns the part of the graphs that the requests of a group have in common, and builds it first if this has not been done.
  template <typename Part, typename Make>
  static Part part_of(Group<Part>& group, const Make& make);

  const ChunkedGraphs chunked_;
  std::mutex mutex_;  // protects the lists of groups; each group has its own mutex for its part
  Groups<GradientGraph> gradients_;
  Groups<PlanGraphs> training_;  // the first part of training programs, with its weights
  Groups<ProgramPlan> evaluation_;
};

// Builds from shared graphs the same plan that build_plan() would build for the request. Errors: as build_plan().
Plan build_plan(const PlanRequest& request, SharedGraphs& shared);

}  // namespace plimsoll
