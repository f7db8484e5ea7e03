// Where what processes hold on a card beside their arenas lies between runs: a file for each card, driver and
// build in the user's cache. What it is not: it measures nothing (`plimsoll bench --calibrate`).
// Thread-safety: free functions; a file is replaced as a whole.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "plimsoll/training.h"
#include "target/gpu_constant.h"
#include "target/gpu_target.h"

namespace plimsoll {

// The program that runs, told from another build of it by its size and when it was written.
std::string program_build();

// "" where the environment has no cache.
std::string gpu_constant_path(const std::string& card, const std::string& driver, const std::string& build,
                              const Environment& environment);

// Puts what was measured of this card, driver and build into `gpu`, with its source; leaves it as it is where
// there is nothing, with a warning where there is a damaged file.
void take_gpu_constant(const std::string& card, const std::string& driver, const std::string& build,
                       const Environment& environment, FileSystem& files, GpuTarget& gpu,
                       std::vector<std::string>& warnings);

}  // namespace plimsoll
