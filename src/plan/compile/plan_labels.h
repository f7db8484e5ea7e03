// Names for parts of a plan in tables and messages, such as the name of the device. A plan does not depend on them; the code that prints
// a plan passes them.
#pragma once

#include <string>

#include "plan/compile/plan_request.h"

namespace plimsoll {

struct PlanLabels {
  std::string model = {};      // name of the model; if empty, the type of the model is printed
  std::string device = "cpu";  // name of the device: "cpu, 2 threads" or "cuda:0, NVIDIA H200"
  std::string memory_limit = "--memory_limit";       // the argument or the device that sets the memory limit
  std::string length_argument = "--max_seq_length";  // the argument that sets the length of sequences
  // the effect of a smaller value of length_argument on the data
  std::string shorter_effect = "cuts longer texts";

  std::string model_of(const PlanRequest& request) const {
    return model.empty() ? request.model.config.model_type : model;
  }
};

}  // namespace plimsoll
