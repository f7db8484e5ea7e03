// Where corrections of estimates of time lie between runs: a file for each CPU and number of threads in the
// user's cache, or one that --calibration names. What it is not: it measures nothing (`plimsoll bench
// --calibrate`). Thread-safety: free functions; a file is replaced as a whole.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "plimsoll/training.h"
#include "target/cpu_calibration.h"

namespace plimsoll {

// The CPU at hand as calibrations name it, "Intel(R) Xeon(R), amx".
std::string calibrated_cpu();

// Where --calibration auto looks for that CPU and so many threads; "" where the environment has no cache.
std::string calibration_path(const std::string& cpu, int num_threads, const Environment& environment);

// What --calibration says: auto, off, or a file. Empty, with a warning, for one of another CPU or number of
// threads and for a damaged one of the cache. Errors: those of read_text_file and parse_cpu_calibration for a
// file that is named.
CpuCalibration read_calibration(const std::string& word, int num_threads, const Environment& environment,
                                FileSystem& files, std::vector<std::string>& warnings);

}  // namespace plimsoll
