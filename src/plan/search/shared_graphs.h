// The first parts of the graphs of plans that differ only in what is decided later: sizes of batches, recomputation, offloading, the
// optimizer. A search builds each part once. Thread-safe.
#pragma once

#include <list>
#include <mutex>
#include <optional>

#include "plan/compile/graphs.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// Graphs with chunked logits depend on the bucket. With kBegunEachTime, which a search over buckets uses, they are built for every request
// instead of being kept for every bucket.
enum class ChunkedGraphs : uint8_t { kBegunEachTime, kShared };

class SharedGraphs {
 public:
  explicit SharedGraphs(ChunkedGraphs chunked = ChunkedGraphs::kBegunEachTime) : chunked_(chunked) {}

  // Announces a call of begun() with this request. The last of the announced calls that share a part takes the part itself instead of a
  // copy. Calls that are not announced always copy.
  void announce(const PlanRequest& request);

  // Returns what begin_graphs() returns for the request. Errors: as begin_graphs().
  PlanGraphs begun(const PlanRequest& request);

 private:
  // Returns true if the parts of this request's graphs are shared.
  bool shares_parts(const PlanRequest& request) const;

  // The requests that share a part.
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

  // Returns the group of the request, which may be new.
  template <typename Part>
  Group<Part>& group_of(const PlanRequest& request, Groups<Part>& groups, Alike alike);
  // Returns the part of a group, and makes it first if the group has none yet.
  template <typename Part, typename Make>
  static Part part_of(Group<Part>& group, const Make& make);

  const ChunkedGraphs chunked_;
  std::mutex mutex_;  // guards the lists; each group has its own mutex
  Groups<GradientGraph> gradients_;
  Groups<PlanGraphs> training_;  // weights and the program for training
  Groups<ProgramPlan> evaluation_;
};

// Builds the plan that build_plan() of the request alone returns, from shared graphs. Errors: as build_plan().
Plan build_plan(const PlanRequest& request, SharedGraphs& shared);

}  // namespace plimsoll
