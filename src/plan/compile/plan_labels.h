// The names that tables and messages use for the parts of a plan. A plan does not depend on them; the code that
// prints a plan passes them.
#pragma once

#include <string>

#include "plan/compile/plan_request.h"

namespace plimsoll {

struct PlanLabels {
  std::string model = {};                            // if empty, the type of the model
  std::string device = "cpu";                        // "cpu, 2 threads", "cuda:0, NVIDIA H200"
  std::string memory_limit = "--memory_limit";       // the argument or device that limits the memory
  std::string length_argument = "--max_seq_length";  // the argument that sets the length of sequences
  std::string shorter_effect =
      "cuts longer texts";  // the effect of a smaller value of that argument on the data

  std::string model_of(const PlanRequest& request) const {
    return model.empty() ? request.model.config.model_type : model;
  }
};

}  // namespace plimsoll
