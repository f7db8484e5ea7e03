// Converts the plan, and the memory figures of a finished run, to JSON for other programs. Pure; thread-safe.
// The same plan gives the same text on every machine, because it contains no measured times.
#pragma once

#include <string>

#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plimsoll/training.h"

namespace plimsoll {

inline constexpr int kPlanJsonVersion = 1;

// Returns plan.json, which `plan --json FILE` also writes: an object with an indent of two spaces, sorted
// keys and a newline at the end. Keys: schema_version, total_bytes; spaces [{name, arena_bytes,
// lower_bound_bytes, constant_bytes}]; by_purpose {purpose: bytes in the phase that needs the most; the sum
// is total_bytes}; by_phase {phase: {by_purpose, gaps_bytes, arena_bytes, unused_bytes, constant_bytes,
// total_bytes}}; operations {group: {flops, bytes, estimated_ms, forward, backward, optimizer}}; estimate;
// peaks; modules; parameters; programs; request.
std::string plan_json(const Plan& plan, const PlanLabels& labels = {});

// Returns memory.json: predicted_total_bytes, arena_bytes, arena_high_water_bytes, measured_peak_bytes, and
// their components.
std::string memory_json(const MemoryFigures& figures);

}  // namespace plimsoll
