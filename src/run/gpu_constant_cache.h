// Finds and reads the GPU constant, the memory that a process holds on a card in addition to its arena: a file per card,
// driver and build of the program in the user's cache. `plimsoll bench --calibrate` measures. Thread-safety: free
// functions; a file is replaced as a whole.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "hardware/gpu_constant.h"
#include "hardware/gpu_target.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Returns a word that differs between builds of the program. It is made of the executable's size and modification time.
std::string program_build();

// Returns the path of the file; "" if the environment has no cache.
std::string gpu_constant_path(const std::string& card, const std::string& driver, const std::string& build,
                              const Environment& environment);

// Replaces the constant in `gpu` and its provenance by the measurement for this card, driver and build. Leaves `gpu`
// unchanged if there is none, with a warning if the file is damaged.
void take_gpu_constant(const std::string& card, const std::string& driver, const std::string& build,
                       const Environment& environment, FileSystem& files, GpuTarget& gpu,
                       std::vector<std::string>& warnings);

}  // namespace plimsoll
