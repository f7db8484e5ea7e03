// How the process's memory changed during a phase (init, train, ...), under the names of Hugging Face's
// memory tracker. The plan and the arena are not looked at: memory.json has those. A phase is used by one
// thread.
#pragma once

#include <string>

#include "device/monitor/host.h"
#include "plimsoll/training.h"

namespace plimsoll {

class MemoryPhase {
 public:
  // The phase begins.
  MemoryPhase() : begin_(process_memory()) {}

  int64_t resident_bytes_at_begin() const { return begin_.resident_bytes; }
  // The phase ends. Returns <phase>_mem_cpu_alloc_delta, the resident bytes that it added, and
  // <phase>_mem_cpu_peaked_delta, how far the highest moment within it was above its end. That is 0 where an
  // earlier phase was higher, since the kernel keeps one peak for the whole life of a process.
  MetricMap end(const std::string& phase) const;

 private:
  ProcessMemory begin_;
};

}  // namespace plimsoll
