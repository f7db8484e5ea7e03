// The change of the process's memory during a phase (init, train, ...), under the names of Hugging Face's memory tracker.
// It does not cover the plan and the arena, which memory.json describes. One thread uses a phase.
#pragma once

#include <string>

#include "device/monitor/host.h"
#include "plimsoll/training.h"

namespace plimsoll {

class MemoryPhase {
 public:
  // Begins the phase.
  MemoryPhase() : begin_(process_memory()) {}

  int64_t resident_bytes_at_begin() const { return begin_.resident_bytes; }
  // Ends the phase. Returns <phase>_mem_cpu_alloc_delta, the resident bytes that it added, and
  // <phase>_mem_cpu_peaked_delta, the difference between its peak and its end. The latter is 0 if an earlier phase had a
  // higher peak, since the kernel keeps one peak for the whole life of a process.
  MetricMap end(const std::string& phase) const;

 private:
  ProcessMemory begin_;
};

}  // namespace plimsoll
