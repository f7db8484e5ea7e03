// What a phase did to the process's memory, under the names of Trainer's memory tracker. Not a plan and not
// the arena: memory.json has those. Values; one phase is used by one thread.
#pragma once

#include <string>

#include "plimsoll/training.h"
#include "show/monitor/host.h"

namespace plimsoll {

class MemoryPhase {
 public:
  // The phase begins.
  MemoryPhase() : begin_(process_memory()) {}

  int64_t resident_bytes_at_begin() const { return begin_.resident_bytes; }
  // It ends: <phase>_mem_cpu_alloc_delta, the resident bytes that it added, and <phase>_mem_cpu_peaked_delta,
  // how far above its end the process was within it; zero where an earlier phase was higher, since the kernel
  // keeps one peak for the life of the process.
  MetricMap end(const std::string& phase) const;

 private:
  ProcessMemory begin_;
};

}  // namespace plimsoll
