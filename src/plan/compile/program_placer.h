// Finds kernels, buffers and offsets of one program, for one bucket after another. What is the same in every
// bucket (lifetimes, purposes, where each buffer's life ends) is found once. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/compile/kernel_choice.h"
#include "plan/compile/plan.h"
#include "plan/compile/program_buffers.h"

namespace plimsoll {

class ProgramPlacer {
 public:
  // Enters the program's persistent values into the plan's list, which both programs share. Errors: kInternal
  // where the programs contradict each other.
  ProgramPlacer(Plan& plan, ProgramPlan& program);

  // Makes the program's persistent buffers as large as its bucket needs them.
  void grow_persistent(Plan& plan, const ProgramPlan& program) const;
  // Kernels, ladder and buffers for program.bucket, with offsets from the start of the program's transient
  // regions.
  void lay_out(ProgramPlan& program, const PlanRequest& request);
  // Turns offsets within the transient regions into offsets within the arenas; the regions start at `begin`
  // and `host_begin`. Requires: persistent buffers have their offsets.
  void resolve_offsets(const Plan& plan, int64_t begin, int64_t host_begin, ProgramPlan& program) const;

 private:
  struct Persistent {
    ValueId value = kNoValue;
    uint32_t buffer = 0;  // in Plan::persistent
  };

  void enter_persistent(Plan& plan, const ProgramPlan& program);

  KernelChoice kernels_;
  ProgramBuffers buffers_;
  uint32_t cut_at_;
  std::vector<Persistent> persistent_;
  std::vector<uint32_t> roots_;      // of each value
  std::vector<uint32_t> buffer_of_;  // for a root that is persistent: its index in Plan::persistent
};

}  // namespace plimsoll
