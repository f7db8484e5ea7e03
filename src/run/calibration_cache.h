// Finds and reads calibrations, which correct estimates of time on a CPU: a file per CPU and number of threads in the
// user's cache, or the file that --calibration names. `plimsoll bench --calibrate` measures. Thread-safety: free
// functions; a file is replaced as a whole.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "hardware/cpu_calibration.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Returns the name of this machine's CPU in calibrations: "Intel(R) Xeon(R), amx".
std::string calibrated_cpu();

// Returns the file that --calibration auto reads for this CPU and number of threads; "" if the environment has no cache.
std::string calibration_path(const std::string& cpu, int num_threads, const Environment& environment);

// Returns the calibration that `word`, the value of --calibration, selects: "auto", "off" or a file. Empty for "off" and
// if the cache has none; empty with a warning for one of another CPU or number of threads, and for a damaged file in the
// cache. Errors: those of read_text_file() and parse_cpu_calibration() for a named file.
CpuCalibration read_calibration(const std::string& word, int num_threads, const Environment& environment,
                                FileSystem& files, std::vector<std::string>& warnings);

}  // namespace plimsoll
