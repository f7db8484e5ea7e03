// Units that more than one room counts in.
#pragma once

#include <cstdint>

namespace plimsoll {

// Bytes of a MiB.
inline constexpr int64_t kMiB = int64_t{1} << 20;

// Whole MiB in so many bytes, what is left over dropped, as nvidia-smi counts.
constexpr int64_t whole_mib(int64_t bytes) {
  return bytes / kMiB;
}

}  // namespace plimsoll
