// Memory by module of the model: weights, states, gradients and saved activations. Pure; thread-safe.
//
// Invariants: weights, states and staging add up over the modules to the persistent buffers of the plan.
// The columns "at most" are each module's own highest sum over the step, so they need not add up to
// anything: modules peak at different ops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

struct ModuleMemory {
  std::string module = {};  // as the graph names it; "" for values that belong to no module
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t state_bytes = 0;
  int64_t staging_bytes = 0;
  int64_t gradient_bytes_at_most = 0;
  int64_t saved_bytes_at_most = 0;
  int64_t temporary_bytes_at_most = 0;  // includes the scratch of kernels
};

// Returns the modules in the order in which the model uses them. Cost: linear in buffers, plus a sort.
std::vector<ModuleMemory> module_memory(const Plan& plan);

}  // namespace plimsoll
