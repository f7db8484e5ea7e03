// Lists the matrix products of a plan for a GPU: those that a library computes, which the tuning table describes, and
// those that kernels of this program compute. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "lowering/matmul_lowering.h"
#include "plan/compile/plan.h"

namespace plimsoll {

struct LibraryMatmul {
  PlannedMatmul matmul = {};
  int64_t count = 0;  // ops
};
// Returns the distinct products of a program that a library computes in one bucket; none on a CPU.
std::map<ProductKey, LibraryMatmul> list_matmuls(const ProgramPlan& program, const Bucket& bucket,
                                                 const PlanRequest& request);

struct CustomMatmul {
  std::string_view kernel = {};  // the implementation's name
  int64_t count = 0;             // ops
  bool is_part =
      false;  // the product is a part of a fused op, whose kernel uses the library if there are few rows
};
// Returns the distinct products of a program that kernels of this program compute in one bucket on a GPU, including those
// within linear_gelu and linear_norm; none on a CPU. list_matmuls() does not contain them.
std::map<ProductKey, CustomMatmul> list_custom_matmuls(const ProgramPlan& program, const Bucket& bucket,
                                                       const PlanRequest& request);

}  // namespace plimsoll
