// Which products of a plan are not the library's. Thread-safe: a pure function.
#pragma once

#include <string_view>

namespace plimsoll {

// Whether the implementation takes products by our own kernel for linear layers where
// matmul_takes_own_product() says so (kernels/matmul/catalog.h).
bool is_own_product(std::string_view implementation);

}  // namespace plimsoll
