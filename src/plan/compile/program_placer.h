// Finds kernels, buffers and offsets of one program for many buckets (batch sizes). Lifetimes and purposes of buffers are the same in every
// bucket and are computed once. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/compile/kernel_choice.h"
#include "plan/compile/plan.h"
#include "plan/compile/program_buffers.h"

namespace plimsoll {

class ProgramPlacer {
 public:
  // Adds the program's persistent values to the plan's list, which all programs share. Errors: kInternal if programs contradict each
  // other.
  ProgramPlacer(Plan& plan, ProgramPlan& program);

  // Increases the sizes of the plan's persistent buffers to those that the program needs for its largest batch.
  void grow_persistent(Plan& plan, const ProgramPlan& program) const;
  // Chooses kernels, computes the ladder (the batch sizes that the program can run with), and places the buffers for program.bucket.
  // Offsets count from the start of the program's transient regions.
  void lay_out(ProgramPlan& program, const PlanRequest& request);
  // Converts offsets within the transient regions to offsets within the arenas; the regions start at `begin` and `host_begin`. Requires:
  // the offsets of persistent buffers are set.
  void resolve_offsets(const Plan& plan, int64_t begin, int64_t host_begin, ProgramPlan& program) const;

 private:
  struct Persistent {
    ValueId value = kNoValue;
    uint32_t buffer = 0;  // index of the buffer in Plan::persistent
  };

  void enter_persistent(Plan& plan, const ProgramPlan& program);
  // Places the values that are saved for the backward pass in slots, one per micro-batch, and all other values after the slots.
  static void lay_out_slots(ProgramPlan& program, const PlanRequest& request);

  KernelChoice kernels_;
  ProgramBuffers buffers_;
  uint32_t cut_at_;
  std::vector<Persistent> persistent_;
  std::vector<uint32_t> roots_;      // index of the root of each value (the value that owns the memory)
  std::vector<uint32_t> buffer_of_;  // for each root that is persistent, its index in Plan::persistent
};

}  // namespace plimsoll
