// Lists the number formats that the tensor cores of a GPU multiply, by its compute capability. Pure;
// thread-safe.
#pragma once

#include <string>
#include <vector>

namespace plimsoll {

struct Capability {
  std::string format = {};  // "bf16"
  bool is_there = false;
  std::string why = {};
};

// Returns fp16, bf16, tf32 and fp8, in this order. `sm` is 90 for compute capability 9.0.
std::vector<Capability> gpu_capabilities(int sm);

}  // namespace plimsoll
