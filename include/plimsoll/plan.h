// Plans a run before anything is allocated, on a machine that need not have the device. The plan states, to
// the byte, the memory that the run will hold, its location and its purpose. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Selects if a report lists the cheapest ways to save memory. Each of them is planned, so such a report takes
// up to five times as long; if the run does not fit, up to a hundred times as long.
enum class Savings : uint8_t { kLeaveOut, kPlan };

// The result of planning. All sizes are in bytes; total = arena + constant.
struct PlanReport {
  int64_t total_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;  // no layout of this schedule has a smaller arena
  int64_t constant_bytes = 0;     // held by the process outside the arena
  bool fits = true;               // whether the run fits into --memory_limit, if one is set
  // Why the run does not fit, and the cheapest changes with which it would. "" with kLeaveOut or if it fits.
  std::string refusal;
  double build_ms = 0;
  std::string table;    // memory by purpose and phase, operations by group: for people
  std::string summary;  // its five most important lines
  std::string line;     // its most important line
  std::string savings;  // cheapest ways to save memory; empty with kLeaveOut or if the run does not fit
  std::string modules;  // memory by module
  std::string why;      // explains the choice of kernels and passes and the use of memory
  std::string json;     // total_bytes, spaces, by_purpose, by_phase, operations, ...
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

// Plans a training run with these arguments. It needs no weights, data or device: --config_name or
// --model_name_or_path may name a preset. A plan that does not fit is returned with fits = false. Errors:
// kUsage, kBadData.
PlanReport plan_run(const Arguments& arguments, const Environment& environment = {},
                    Savings savings = Savings::kLeaveOut);

// Plans such a run and returns if it fits. Errors: kWillNotFit if the plan exceeds --memory_limit; the
// message names the cheapest changes that make it fit. Otherwise as plan_run().
void require_fit(const Arguments& arguments, const Environment& environment = {});

}  // namespace plimsoll
