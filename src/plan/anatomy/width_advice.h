// Widths of a model that tensor cores do not like, and what wider ones would gain: the documents' advice on
// multiples of 8 and 64, with a prediction. Pure functions of the plan; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

struct WidthAdvice {
  std::string name = {};     // as config.json calls it, "intermediate_size"
  std::string numbers = {};  // "bf16"
  int64_t width = 0;
  int64_t multiple = 0;  // that the width is none of: of 8 or 64 numbers in 16 bits, of 4 or 32 in tf32
  int64_t better =
      0;  // a wider one that is a multiple of what the card reads best, or less where that gains more
  double gain = 1.0;  // predicted: time of a step now over that with the better width
};

// Nothing on a CPU, in true fp32 and tf32x3, and where a wider model is not predicted to be faster. Multiples
// of 64, in tf32 of 32, are advised on cards of compute capability 8.0, 9.0 and 10.x, where NVIDIA's guide
// and measurements have them. Cost: one plan or two for each width that is no such multiple.
std::vector<WidthAdvice> width_advice(const Plan& plan);

// A line for people.
std::string advice_text(const WidthAdvice& advice);

}  // namespace plimsoll
