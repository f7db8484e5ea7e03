// Bytes per parameter: those of the plan, the formulas that people quote, and the reasons why they differ.
// Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

// A rule of thumb. None of them counts activations, temporary buffers or the constant of the device.
struct QuotedFormula {
  std::string name = {};     // "AdamW in fp32"
  std::string made_of = {};  // "4 weights + 4 gradients + 8 moments"
  double bytes_per_parameter = 0;
  int64_t bytes = 0;     // bytes by the formula for this model
  bool applies = false;  // true for the formula that people would use for this plan
};

struct ParameterBytes {
  int64_t num_parameters = 0;
  // Bytes per parameter of the plan at its peak.
  double weights = 0;
  double states = 0;
  double gradients = 0;
  double sum() const { return weights + states + gradients; }
  double activations = 0;  // saved, temporary and gaps at the peak
  std::vector<QuotedFormula> quoted = {};
  std::string difference = {};  // one or more sentences that compare the formula that applies with this plan
};

ParameterBytes parameter_bytes(const Plan& plan);

}  // namespace plimsoll
