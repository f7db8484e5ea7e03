// The plan as data for other programs, and the figures of memory after a run. Pure; thread-safe. The same
// plan gives the same text on every machine: nothing that was timed is in it.
#pragma once

#include <string>

#include "plan/compile/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

inline constexpr int kPlanJsonVersion = 1;

// plan.json and `plan --json FILE`: an object, two spaces of indent, keys sorted, newline at the end. Keys:
// schema_version, total_bytes; spaces [{name, arena_bytes, lower_bound_bytes, constant_bytes}]; by_purpose
// {purpose: bytes in the phase that needs the most; they add up to total_bytes}; by_phase {phase:
// {by_purpose, gaps_bytes, arena_bytes, unused_bytes, constant_bytes, total_bytes}}; operations {group:
// {flops, bytes, estimated_ms, forward, backward, optimizer}}; estimate; peaks; modules; parameters;
// programs; request.
std::string plan_json(const Plan& plan);

// memory.json: predicted_total_bytes, arena_bytes, arena_high_water_bytes, measured_peak_bytes, and what they
// are made of.
std::string memory_json(const MemoryFigures& figures);

}  // namespace plimsoll
