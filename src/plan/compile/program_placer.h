// Finds kernels, buffers and offsets of one program, for many buckets. Lifetimes and purposes of buffers are the same in every bucket and
// are computed once. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/compile/kernel_choice.h"
#include "plan/compile/plan.h"
#include "plan/compile/program_buffers.h"

namespace plimsoll {

class ProgramPlacer {
 public:
  // Adds the program's persistent values to the plan's list, which both programs share. Errors: kInternal
  // if the programs contradict each other.
  ProgramPlacer(Plan& plan, ProgramPlan& program);

  // Grows the persistent buffers that the program uses to the sizes that its bucket needs.
  void grow_persistent(Plan& plan, const ProgramPlan& program) const;
  // Computes kernels, ladder and buffers for program.bucket, with offsets from the start of the program's
  // transient regions.
  void lay_out(ProgramPlan& program, const PlanRequest& request);
  // Converts offsets within the transient regions to offsets within the arenas; the regions start at
  // `begin` and `host_begin`. Requires: persistent buffers have their offsets.
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
  std::vector<uint32_t> roots_;      // the root of each value
  std::vector<uint32_t> buffer_of_;  // the index in Plan::persistent of each root that is persistent
};

}  // namespace plimsoll
