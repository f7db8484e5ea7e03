// What the backward pass computes again, as a person reads it. Pure; thread-safe.
#pragma once

#include <string>

#include "plan/compile/plan.h"

namespace plimsoll {

// For each block of the model, equal neighbours in one line: MiB kept and made again, operations, estimated
// time, its share of the step, and the ops that run again. At most 100 columns, newline at the end; empty
// where nothing but the default is asked for.
std::string recompute_table(const Plan& plan);

}  // namespace plimsoll
