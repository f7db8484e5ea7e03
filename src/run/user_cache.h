// The program's folders in the user's cache, which keep measurements between runs: see tuning_cache.h,
// calibration_cache.h and gpu_constant_cache.h. Thread-safe: free functions.
#pragma once

#include <string>

#include "base/file.h"
#include "plimsoll/training.h"

namespace plimsoll {

// The program's folder of that name in XDG_CACHE_HOME, else in HOME/.cache; "" where the environment has
// neither.
std::string cache_folder(const std::string& name, const Environment& environment);

// Whether the file is there. False too where this user may not look into the folder: nobody asked for a
// cache, so that is no error.
bool is_in_cache(FileSystem& files, const std::string& path);

// Writes the text into a file of a cache, making its folder. Errors: kUsage where `path` is "", which it is
// in an environment without a cache; the message ends with `what`, which says what the text is. Those of the
// file system.
void keep_in_cache(FileSystem& files, const std::string& path, const std::string& text,
                   const std::string& what);

}  // namespace plimsoll
