// Finds and reads the GPU constant, which is what a process holds on a card beside its arena: a file for each
// card, driver and build of the program in the user's cache. Measuring is not done here (`plimsoll bench
// --calibrate`). Thread-safety: free functions; a file is replaced as a whole.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "hardware/gpu_constant.h"
#include "hardware/gpu_target.h"
#include "plimsoll/training.h"

namespace plimsoll {

// A word that tells this build of the program from others, made of the executable's size and the time when it
// was written.
std::string program_build();

// The path of the file; "" where the environment has no cache.
std::string gpu_constant_path(const std::string& card, const std::string& driver, const std::string& build,
                              const Environment& environment);

// Replaces the constant in `gpu`, and the words on where it is from, by what was measured for this card,
// driver and build. Leaves `gpu` as it is where nothing was measured, with a warning where the file is
// damaged.
void take_gpu_constant(const std::string& card, const std::string& driver, const std::string& build,
                       const Environment& environment, FileSystem& files, GpuTarget& gpu,
                       std::vector<std::string>& warnings);

}  // namespace plimsoll
