#include "train/memory_deltas.h"

#include <algorithm>

namespace plimsoll {

MetricMap MemoryPhase::end(const std::string& phase) const {
  const ProcessMemory now = process_memory();
  const bool peaked_here = now.peak_bytes > begin_.peak_bytes;
  const int64_t peaked = peaked_here ? std::max<int64_t>(0, now.peak_bytes - now.resident_bytes) : 0;
  return {{phase + "_mem_cpu_alloc_delta", static_cast<double>(now.resident_bytes - begin_.resident_bytes)},
          {phase + "_mem_cpu_peaked_delta", static_cast<double>(peaked)}};
}

}  // namespace plimsoll
