// The pass of quantized_weights_pass.cc: matrices that nothing updates are held in 4 or 8 bits, and turned back
// into numbers right before each product that reads them. The weight's name then stands for its codes; its
// scales are persistent values beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/passes/pass.h"

namespace plimsoll {

// What arrays a quantized matrix takes; the sizes are those of kernels/quantization.
struct QuantizedWeight {
  std::string name;
  int64_t parts = 1;  // groups of rows that are quantized each for itself
  int64_t num_codes = 0;
  int64_t num_scales = 0;
  int64_t num_second_scales = 0;  // 0: scales are fp32
};

// Weights that another op than a product reads are left as they are. `format` is one of
// quantized_format_name(). The numbers have the type of the activations that they are multiplied with.
Pass quantized_weights_pass(std::string format, std::vector<QuantizedWeight> weights);

}  // namespace plimsoll
