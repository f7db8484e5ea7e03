// Which products of a plan are not the library's. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "plan/compile/plan.h"

namespace plimsoll {

// Whether the implementation takes products by our own kernel for linear layers where
// matmul_takes_own_product() says so (kernels/matmul/matmul_catalog.h).
bool is_own_product(std::string_view implementation);

struct OwnProduct {
  std::string_view kernel = {};  // the implementation's name
  int64_t count = 0;             // ops
  bool is_part = false;          // of an op that does more, whose kernel takes the library where rows are few
};
// The distinct products of a program that kernels of this program compute in one bucket on a GPU, with those
// that lie within ops of more than a product (linear_gelu, linear_norm): what products_of() leaves out. None
// on a CPU.
std::map<ProductKey, OwnProduct> own_products_of(const ProgramPlan& program, const Bucket& bucket,
                                                 const PlanRequest& request);

}  // namespace plimsoll
