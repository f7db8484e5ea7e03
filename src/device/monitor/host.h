// What the operating system says of this process and this machine: memory, limits, the CPU's name.
// Reads Linux's /proc and /sys at the time of the call; what it cannot find reads as 0 or as nothing. It
// prints nothing and changes nothing. Thread-safe. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hardware/cpu_isa.h"

namespace plimsoll {

// Where the system's files are; tests put a folder of their own there.
struct SystemPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

struct ProcessMemory {
  int64_t resident_bytes = 0;  // VmRSS, now
  int64_t peak_bytes = 0;      // VmHWM, since the process started
  int64_t swapped_bytes = 0;   // VmSwap
};
ProcessMemory process_memory(const SystemPaths& paths = {});

struct MachineMemory {
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;  // without swapping, as the kernel estimates
  std::optional<int64_t> cgroup_limit_bytes =
      {};  // the tightest limit of this process's control groups, version 1 or 2
  std::optional<int64_t> cgroup_used_bytes = {};  // of the group with that limit
  // What this process may take now: the smaller of what is available and what the control group leaves.
  int64_t takeable_bytes() const;
};
MachineMemory machine_memory(const SystemPaths& paths = {});
// What to warn of where a run needs more bytes than this machine can give now; "" where it fits or where the
// machine does not say.
std::string shortage_text(int64_t needed_bytes, const MachineMemory& memory);

// The CPU's name as /proc/cpuinfo has it; "" where it has none.
std::string cpu_name(const SystemPaths& paths = {});

// "AVX-512 + AMX": an instruction set as people write it.
std::string isa_words(CpuIsa isa);
// The first line of a run: "device cpu: Some CPU, 2 threads, AVX-512 + AMX".
std::string cpu_device_line(int num_threads, CpuIsa isa, const std::string& name);

}  // namespace plimsoll
