// Lists the number formats that a device multiplies in hardware: the tensor cores of a GPU by its compute capability,
// a CPU by its instruction sets. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "hardware/cpu_isa.h"

namespace plimsoll {

struct Capability {
  std::string format = {};  // "bf16"
  bool is_there = false;
  std::string why = {};
};

// Returns fp16, bf16, tf32 and fp8, in this order. `sm` is 90 for compute capability 9.0.
std::vector<Capability> gpu_capabilities(int sm);

// Returns fp32, bf16, fp16, tf32 and fp8, in this order. `multiplies_fp16`: the CPU has AVX512_FP16 or AMX-FP16.
std::vector<Capability> cpu_capabilities(CpuIsa isa, bool multiplies_fp16);

}  // namespace plimsoll
