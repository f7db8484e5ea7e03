// Where what was measured lies between runs: the program's folders in the user's cache. What lies in them is
// said by tuning_cache.h, calibration_cache.h and gpu_constant_cache.h. Thread-safe: free functions.
#pragma once

#include <string>

#include "base/file.h"
#include "plimsoll/training.h"

namespace plimsoll {

// The program's folder of that name in XDG_CACHE_HOME, else in HOME/.cache; "" where the environment has
// neither.
std::string cache_folder(const std::string& name, const Environment& environment);

// Whether there is such a file. A cache in a folder that this user may not look into is none: it was asked
// for by nobody.
bool is_in_cache(FileSystem& files, const std::string& path);

// Puts the text into the file of a cache, making its folder. Errors: kUsage where the path is "", as in an
// environment without a cache, with a message that ends with `what` the text is; those of the file system.
void keep_in_cache(FileSystem& files, const std::string& path, const std::string& text,
                   const std::string& what);

}  // namespace plimsoll
