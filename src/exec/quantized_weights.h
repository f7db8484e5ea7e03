// Writes fp32 matrices into a plan that holds them in 4 or 8 bits, as codes and scales. Not thread-safe.
#pragma once

#include <string>

#include "exec/executor.h"

namespace plimsoll {

// Whether the plan holds this weight in 4 or 8 bits.
bool is_quantized(const Plan& plan, const std::string& weight);

// Quantizes one part (of WeightSpec::parts) of such a weight and writes it. `values` are its rows. Cost:
// linear, on one thread; memory of the part's codes and scales.
void write_quantized(Executor& executor, const WeightSpec& spec, size_t part, ConstView values);

}  // namespace plimsoll
