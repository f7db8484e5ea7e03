// Reads from the operating system the memory of this process and this machine, their limits, and the CPU's
// name. Reads Linux's /proc and /sys at the time of the call; values that it cannot find are 0 or empty. It
// prints nothing and changes nothing. Thread-safe. Errors: none.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "hardware/cpu_isa.h"

namespace plimsoll {

// The folders from which the values are read. Tests replace them by folders with prepared files.
struct SystemPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
  std::string nodes = "/sys/devices/system/node";  // a folder with one subfolder per NUMA node
};

struct ProcessMemory {
  int64_t resident_bytes = 0;  // resident memory now (VmRSS)
  int64_t peak_bytes = 0;      // largest resident memory since the process started (VmHWM)
  int64_t swapped_bytes = 0;   // memory of the process that was swapped out (VmSwap)
};
ProcessMemory process_memory(const SystemPaths& paths = {});

struct MachineMemory {
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;  // memory available without swapping, as the kernel estimates it
  std::optional<int64_t> cgroup_limit_bytes =
      {};  // the lowest limit of this process's control groups, version 1 or 2
  std::optional<int64_t> cgroup_used_bytes = {};  // memory that the control group with that limit uses
  // Returns the number of bytes that this process may allocate now: the smaller of the available memory and
  // the unused part of the control group's limit.
  int64_t takeable_bytes() const;
};
MachineMemory machine_memory(const SystemPaths& paths = {});
// Returns a warning if a run needs more bytes than this machine can provide now; "" if it fits or the
// available memory is unknown.
std::string shortage_text(int64_t needed_bytes, const MachineMemory& memory);

// Returns the CPU's name from /proc/cpuinfo; "" if it has none.
std::string cpu_name(const SystemPaths& paths = {});

// Returns the name of this machine; "" if it is unknown.
std::string host_name(const SystemPaths& paths = {});

// Returns true if /proc/cpuinfo lists one of these flags, such as "avx512_fp16".
bool has_cpu_flag(std::initializer_list<std::string_view> names, const SystemPaths& paths = {});

// Formats an instruction set for people: "AVX-512 + AMX".
std::string describe_isa(CpuIsa isa);
// Returns the first line of a run: "device cpu: Some CPU, 2 threads, AVX-512 + AMX".
std::string cpu_device_line(int num_threads, CpuIsa isa, const std::string& name);

}  // namespace plimsoll
