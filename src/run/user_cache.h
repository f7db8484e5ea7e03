// The program's folders in the user's cache, which store measurements between runs: see tuning_cache.h,
// calibration_cache.h and gpu_constant_cache.h. Thread-safe: free functions.
#pragma once

#include <string>

#include "base/file.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Returns the program's folder of that name in XDG_CACHE_HOME, otherwise in HOME/.cache; "" if the environment has
// neither.
std::string cache_folder(const std::string& name, const Environment& environment);

// Returns true if the file exists and its folder can be read. A folder that cannot be read is no error, since the user did
// not ask for a cache.
bool is_in_cache(FileSystem& files, const std::string& path);

// Writes the text into a file of a cache, creating its folder. Errors: kUsage if `path` is "", as it is in an environment
// without a cache; the message ends with `what`, a description of the text. Those of the file system.
void keep_in_cache(FileSystem& files, const std::string& path, const std::string& text,
                   const std::string& what);

}  // namespace plimsoll
