// Widths of a model that tensor cores do not like, and what wider ones would gain: the documents' advice on
// multiples of 8 and 64, with a prediction. Pure functions of the plan; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plan/build/plan.h"

namespace plimsoll {

struct WidthAdvice {
  std::string name = {};  // as config.json calls it, "intermediate_size"
  int64_t width = 0;
  int64_t better = 0;  // a wider one that is a multiple of 64, or of 8 where that gains more
  double gain = 1.0;   // predicted: time of a step now over that with the better width
};

// Nothing on a CPU, in fp32 and tf32, and where a wider model would not be faster. Cost: two plans for each
// width that is no multiple of 8.
std::vector<WidthAdvice> width_advice(const Plan& plan);

// A line for people.
std::string advice_text(const WidthAdvice& advice);

}  // namespace plimsoll
