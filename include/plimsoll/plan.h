// The plan of a run, before anything is allocated and on a machine that need not have the device: what it
// will hold in memory, to the byte, where and why. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Whether a report lists the cheapest ways to use less memory. Each of them is planned, so that a report with
// them takes up to five times as long.
enum class Savings : uint8_t { kLeaveOut, kPlan };

// Bytes. total = arena + constant.
struct PlanReport {
  int64_t total_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;  // no layout of this schedule has a smaller arena
  int64_t constant_bytes = 0;     // what the process holds beside the arena
  bool fits = true;               // into --memory_limit, where one is set
  double build_ms = 0;
  std::string table;    // memory by purpose and phase, operations by group: for people
  std::string savings;  // cheapest ways to use less memory; "" with kLeaveOut or if the run does not fit
  std::string modules;  // memory by module
  std::string why;      // which kernel, which pass, which bytes, and why
  std::string json;     // total_bytes, spaces, by_purpose, by_phase, operations, ...
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

// Plans a training run with these arguments. Needs neither weights nor data nor a device: --config_name or
// --model_name_or_path may name a preset. Errors: kUsage, kBadData; a plan that does not fit is returned with
// fits = false.
PlanReport plan_run(const Arguments& arguments, const Environment& environment = {},
                    Savings savings = Savings::kLeaveOut);

// Plans such a run and returns if it fits. Errors: kWillNotFit where the plan exceeds --memory_limit; the
// message names the cheapest changes with which it would fit. Else as plan_run().
void require_fit(const Arguments& arguments, const Environment& environment = {});

}  // namespace plimsoll
