// Finds widths of a model that tensor cores compute slowly, and predicts the gain of wider ones: the usual
// advice on multiples of 8 and 64, with a prediction. Pure functions of the plan; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

struct WidthAdvice {
  std::string name = {};     // the name in config.json
  std::string numbers = {};  // "bf16"
  int64_t width = 0;
  int64_t multiple = 0;  // the width is not a multiple of it: 8 or 64 numbers in 16 bits, 4 or 32 in tf32
  int64_t better =
      0;  // a larger width that is a multiple of the card's preferred number, or of a smaller number if that gains more
  double gain = 1.0;  // predicted time of a step divided by that with the better width
};

// Returns no advice on a CPU, in true fp32 and tf32x3, and if a wider model is not predicted to be faster.
// Multiples of 64 (32 in tf32) are advised on cards of compute capability 8.0, 9.0 and 10.x, for which
// NVIDIA's guide and measurements show them. Cost: one or two plans for each width that is no such
// multiple.
std::vector<WidthAdvice> width_advice(const Plan& plan);

// Returns a sentence if a batch has a number of sequences, or a length that all of them share, which is no multiple of 8
// although products multiply 16-bit or tf32 numbers: why Plimsoll does not need that multiple. Returns "" otherwise.
std::string describe_batch_shape(const PlanRequest& request);

// Returns the advice as one line of text.
std::string format_advice(const WidthAdvice& advice);

}  // namespace plimsoll
