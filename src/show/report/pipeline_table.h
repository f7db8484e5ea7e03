// Formats the stages of a pipeline for people and for programs. Pure; thread-safe.
#pragma once

#include <string>

#include "plan/compile/plan.h"

namespace plimsoll {

// Formats a line per stage, with its layers, memory and time, and the time of a step with the share in which the slowest stage waits. At
// most `columns` columns, with a newline at the end; empty for a plan without a pipeline.
std::string pipeline_table(const Plan& plan, size_t columns = 100);

}  // namespace plimsoll
