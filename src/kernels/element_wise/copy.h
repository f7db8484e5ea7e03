// The same bytes at another address, which may lie in another memory: of what type they are does not matter.
//
// Requires: the two ranges do not overlap. On a GPU one of them may lie in pinned host memory; the copy is
// then given to the stream and runs beside other streams' work. Exact. Cost: `bytes` read and written.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

struct CopyArgs {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t bytes = 0;
};

void copy_ref(const CopyArgs& args);
void copy_cpu(const CopyArgs& args);

}  // namespace plimsoll
