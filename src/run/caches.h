// Manages this program's folders in the user's cache, which store measurements between runs: calibrations of CPUs, the memory that a
// process needs on a GPU, and tuning tables. Thread-safe: free functions; a file is always replaced as a whole.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "hardware/cpu_target.h"
#include "hardware/gpu_constant.h"
#include "hardware/gpu_target.h"
#include "hardware/link_calibration.h"
#include "plan/compile/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Returns the folder `name` for caches of this program, in XDG_CACHE_HOME or otherwise in HOME/.cache; "" if the environment has neither
// variable.
std::string cache_folder(const std::string& name, const Environment& environment);

// Returns true if the file exists and can be accessed. If its folder cannot be read,
// returns false without an error, because a run does not need a cache.
bool is_in_cache(FileSystem& files, const std::string& path);

// Writes the text into a file of a cache, creating its folder. Errors: those of the file system; kUsage if `path` is "", which is the
// path in an environment without a cache. The message ends with `what`, a description of what could not be saved.
void keep_in_cache(FileSystem& files, const std::string& path, const std::string& text,
                   const std::string& what);

// Finds and reads calibrations, which correct estimates of time on a CPU. A calibration is in the user's cache, in one file per CPU model
// and number of threads, or in the file that --calibration names. `plimsoll bench --calibrate` measures it. Thread-safe: free functions;
// a file is always replaced as a whole.

// Returns the name of this machine's CPU in calibrations, such as "Intel(R) Xeon(R), amx".
std::string calibrated_cpu();

// Returns the file that --calibration auto reads for this CPU and number of threads; "" if the environment has no cache.
std::string calibration_path(const std::string& cpu, int num_threads, const Environment& environment);

// Returns the calibration that `word`, the value of --calibration, selects: "auto", "off" or a file. It is empty for "off" and if the
// cache contains none. It is empty, with a warning, if the calibration is for another CPU or number of threads, and if a file in the
// cache is damaged. Errors: for a named file, those of read_text_file() and parse_cpu_calibration().
CpuCalibration read_calibration(const std::string& word, int num_threads, const Environment& environment,
                                FileSystem& files, std::vector<std::string>& warnings);

// Finds and reads the measured times of exchanges between ranks. They are in the user's cache, in one file per machine, device and number
// of ranks, or in the file that --link_calibration names. `plimsoll bench --links` measures them. Thread-safe: free functions; a file is
// always replaced as a whole.

// Returns the file that --link_calibration auto reads, for the host, the device and the numbers of ranks and hosts in `key`; "" if the
// environment has no cache.
std::string link_calibration_path(const LinkCalibration& key, const Environment& environment);

// Returns the calibration that `word`, the value of --link_calibration, selects: "auto", "off" or a file. If a file has measurements of
// NCCL both with and without P2P, the result contains only those that apply with the NCCL_P2P_DISABLE of the environment. It is empty for
// "off" and if the cache contains none. It is empty, with a warning, for a file that was measured with another device or number of ranks
// than `key` states, and for a damaged file in the cache. A file that the user names may be from another host. Errors: for a named file,
// those of read_text_file() and parse_link_calibration().
LinkCalibration read_link_calibration(const std::string& word, const LinkCalibration& key,
                                      const Environment& environment, FileSystem& files,
                                      std::vector<std::string>& warnings);

// Returns true if the environment tells NCCL not to use P2P (NCCL_P2P_DISABLE=1).
bool disables_nccl_p2p(const Environment& environment);

// Finds and reads the memory that a process needs on a GPU in addition to its arena (the GPU constant). It is stored in the user's cache,
// in one file per card, driver and build of the program. `plimsoll bench --calibrate` measures it. Thread-safe: free functions; a file is
// always replaced as a whole.

// Returns a text that differs between builds of the program, made from the size and the modification time of the executable.
std::string program_build();

// Returns the path of the file for this card, driver and build; "" if the environment has no cache.
std::string gpu_constant_path(const std::string& card, const std::string& driver, const std::string& build,
                              const Environment& environment);

// Replaces the GPU constant (memory in addition to the arena) in `gpu`, and its provenance, by the measurement for this card, driver and
// build. If there is none, leaves `gpu` unchanged, and warns if the file is damaged.
void take_gpu_constant(const std::string& card, const std::string& driver, const std::string& build,
                       const Environment& environment, FileSystem& files, GpuTarget& gpu,
                       std::vector<std::string>& warnings);

// Stores tuning tables (the fastest measured algorithms of matrix products) between runs. A run that resumes begins with the table of its
// checkpoint. A new run begins with the table that an earlier run with the same matrix products stored in the user's cache; if there is
// none, it begins with an empty table. exec/tuning.h measures the algorithms.
//
// A file that is damaged or has another schema is no error: the run measures again and reports why. Thread-safe: free functions; a file
// is replaced as a whole, so that concurrent runs do not damage it.

// Name of the tuning table's file within a checkpoint.
inline constexpr const char* kTuningFile = "tuning.json";

// Returns the folder that --tuning_cache names. For auto, this is plimsoll/tuning in XDG_CACHE_HOME, or else in HOME/.cache. Returns ""
// for off, and if the environment has neither variable.
std::string tuning_cache_folder(const std::string& word, const Environment& environment);

// Returns the name of the file for runs with these matrix products on this card, such as "nvidia-h200-0123456789abcdef.json". Runs with the
// same model, batch sizes and precision use the same file.
std::string tuning_file_name(const PlanRequest& request);

// Returns the table in the file. Returns an empty one if there is no file or, with a warning, if the file cannot be used.
TuningTable read_tuning_table(FileSystem& files, const std::string& path, std::vector<std::string>& warnings);

// Writes the table, creating the folder. Returns a warning if that fails; the run continues without the file.
std::string keep_tuning_table(FileSystem& files, const std::string& path, const TuningTable& table);

}  // namespace plimsoll
