// The first part of the graphs of plans that differ only in what is decided later: sizes of batches, recomputation, offloading.
// A search builds that part once. Thread-safe.
#pragma once

#include <list>
#include <mutex>
#include <optional>

#include "plan/compile/graphs.h"
#include "plan/compile/plan.h"

namespace plimsoll {

class SharedGraphs {
 public:
  // Returns a copy of what begin_graphs() returns for the request. Errors: as begin_graphs().
  PlanGraphs begun(const PlanRequest& request);

 private:
  struct Group {
    PlanRequest request = {};
    std::mutex mutex = {};
    std::optional<PlanGraphs> graphs = {};
  };

  std::mutex mutex_;
  std::list<Group> groups_;
};

// Builds the plan that build_plan() of the request alone returns, from shared graphs. Errors: as build_plan().
Plan build_plan(const PlanRequest& request, SharedGraphs& shared);

}  // namespace plimsoll
