// Computes sorted ids for tests of the functions that read them. Not thread-safe.
#pragma once

#include <string>

#include "kernels/embedding/sort_ids.h"
#include "tests/support/compare.h"

namespace plimsoll::test {

// Returns the result of sort_ids for the first `num_tokens` ids.
inline GuardedBuffer sorted_ids(const std::string& name, GuardedBuffer& ids, int64_t T, int64_t V,
                                int64_t num_tokens) {
  GuardedBuffer sorted(name, DType::kI32, 2 * T);
  sort_ids_ref({.ids = {ids.view()},
                .sorted = {sorted.view()},
                .num_lists = 1,
                .T = T,
                .V = V,
                .num_tokens = num_tokens,
                .scratch = {}});
  return sorted;
}

}  // namespace plimsoll::test
