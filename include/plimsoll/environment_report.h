// Describes the program and the machine on which it runs, for bug reports. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/training.h"

namespace plimsoll {

// Returns the version of this library: "0.1.0".
std::string_view program_version();

struct EnvironmentReport {
  std::string text;  // report for people with a section per subject; ends with a newline
  // report for programs: one JSON object, indented, without a newline at its end; docs/JSON.md describes its fields
  std::string json;
};

// Reports version and build, system, processors and their instruction sets, memory and the limits of control groups,
// NUMA nodes, the NVIDIA driver and its GPUs, the libraries that are opened at run time with the files that were found
// or the places that were searched, the variables of the environment that change what the program does, and the folders
// of its caches. Values of secrets and credentials in addresses are left out. It uses no network, needs no GPU and
// creates no CUDA context. `environment` determines the folders of the caches. Errors: none; what cannot be found is
// reported as missing. Cost: some ms, 10 ms per GPU, and the time in which the loader opens the libraries of CUDA.
EnvironmentReport describe_environment(const Environment& environment = process_environment());

}  // namespace plimsoll
