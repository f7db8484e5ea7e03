// The pass of quantized_weights_pass.cc: matrices that no op updates are stored in 4 or 8 bits, and converted back to
// numbers right before each product that reads them. The name of the weight then belongs to its codes; its scales are
// further persistent values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/passes/pass.h"

namespace plimsoll {

// The arrays of a quantized matrix; kernels/quantization determines their sizes.
struct QuantizedWeight {
  std::string name;
  int64_t parts = 1;  // groups of rows that are quantized separately
  int64_t num_codes = 0;
  int64_t num_scales = 0;
  int64_t num_second_scales = 0;  // 0: scales are fp32
};

// Weights that an op other than a product reads keep their type. `format` is a result of quantized_format_name(). The
// numbers have the type of the activations that they are multiplied with.
Pass quantized_weights_pass(std::string format, std::vector<QuantizedWeight> weights);

}  // namespace plimsoll
