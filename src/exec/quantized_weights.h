// Writes fp32 matrices into the buffers of a plan that stores them in 4 or 8 bits, as codes and scales. Not thread-safe.
#pragma once

#include <string>

#include "exec/executor.h"

namespace plimsoll {

// Returns true if the plan stores this weight in 4 or 8 bits.
bool is_quantized(const Plan& plan, const std::string& weight);

// Quantizes one part (of WeightSpec::parts) of a weight that the plan stores in 4 or 8 bits, and writes it. `values`
// are the rows of the part. Cost: linear in the size of the part, on one thread; it allocates the part's codes and
// scales.
void write_quantized(Executor& executor, const WeightSpec& spec, size_t part, ConstView values);

// Reads one part of a quantized weight and converts it to the numbers that matrix products use, in fp32. Cost: as write_quantized().
void read_quantized(Executor& executor, const WeightSpec& spec, size_t part, View values);

}  // namespace plimsoll
