// Units that several rooms use.
#pragma once

#include <cstdint>

namespace plimsoll {

// The number of bytes in a MiB.
inline constexpr int64_t kMiB = int64_t{1} << 20;

// Converts bytes to MiB, rounded down as in nvidia-smi.
constexpr int64_t whole_mib(int64_t bytes) {
  return bytes / kMiB;
}

}  // namespace plimsoll
