// The program's folders in the user's cache, which store measurements between runs: calibrations of a CPU, the constant of
// a GPU, and tuning tables. Thread-safe: free functions; a file is replaced as a whole.
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

// Returns true if the file exists and its folder can be read. A folder that cannot be read is no error, since the user did
// not ask for a cache.
bool is_in_cache(FileSystem& files, const std::string& path);

// Writes the text into a file of a cache, creating its folder. Errors: those of the file system; kUsage if `path` is "", as
// it is in an environment without a cache. The message then ends with `what`, a description of what could not be saved.
void keep_in_cache(FileSystem& files, const std::string& path, const std::string& text,
                   const std::string& what);

// Finds and reads calibrations, which correct estimates of time on a CPU: a file per CPU and number of threads in the
// user's cache, or the file that --calibration names. `plimsoll bench --calibrate` measures them. Thread-safety: free
// functions; a file is replaced as a whole.

// Returns the name of this machine's CPU in calibrations: "Intel(R) Xeon(R), amx".
std::string calibrated_cpu();

// Returns the file that --calibration auto reads for this CPU and number of threads; "" if the environment has no cache.
std::string calibration_path(const std::string& cpu, int num_threads, const Environment& environment);

// Returns the calibration that `word`, the value of --calibration, selects: "auto", "off" or a file. Empty for "off" and
// if the cache has none; empty with a warning for one of another CPU or number of threads, and for a damaged file in the
// cache. Errors: those of read_text_file() and parse_cpu_calibration() for a named file.
CpuCalibration read_calibration(const std::string& word, int num_threads, const Environment& environment,
                                FileSystem& files, std::vector<std::string>& warnings);

// Finds and reads the measured times of exchanges between ranks: a file per machine, device and number of ranks in the user's
// cache, or the file that --link_calibration names. `plimsoll bench --links` measures them. Thread-safety: free functions; a
// file is replaced as a whole.

// Returns the file that --link_calibration auto reads for the host, device and numbers of ranks and hosts of `key`; "" if the
// environment has no cache.
std::string link_calibration_path(const LinkCalibration& key, const Environment& environment);

// Returns the calibration that `word`, the value of --link_calibration, selects: "auto", "off" or a file. A file may have measurements of
// NCCL with and without P2P; the result has only those that NCCL_P2P_DISABLE in the environment selects. Empty for "off" and if the cache
// has none; empty with a warning for a file with another key than `key`, and for a damaged file in the cache. A file that is named may be
// of another host. Errors: those of read_text_file() and parse_link_calibration() for a named file.
LinkCalibration read_link_calibration(const std::string& word, const LinkCalibration& key,
                                      const Environment& environment, FileSystem& files,
                                      std::vector<std::string>& warnings);

// Returns true if the environment tells NCCL not to use P2P (NCCL_P2P_DISABLE=1).
bool disables_nccl_p2p(const Environment& environment);

// Finds and reads the GPU constant, the memory that a process holds on a card in addition to its arena: a file per
// card, driver and build of the program in the user's cache. `plimsoll bench --calibrate` measures it. Thread-safety:
// free functions; a file is replaced as a whole.

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

// Stores tuning tables between runs. A run begins with the table of the checkpoint that it resumes from, otherwise
// with the table that an earlier run of its kind stored in the user's cache, otherwise with an empty table.
// exec/tuning.h measures the algorithms.
//
// A file that is damaged or has another schema is no error: the run measures again and reports why.
// Thread-safety: free functions; a file is replaced as a whole, so that concurrent runs do not damage it.

// The name of the file within a checkpoint.
inline constexpr const char* kTuningFile = "tuning.json";

// Returns the folder that --tuning_cache names; for auto, plimsoll/tuning in XDG_CACHE_HOME, otherwise in HOME/.cache; ""
// for off and if the environment has neither.
std::string tuning_cache_folder(const std::string& word, const Environment& environment);

// Returns the name of the file for runs with these products on this card, such as "nvidia-h200-0123456789abcdef.json".
// Runs with the same model, buckets and precision share one.
std::string tuning_file_name(const PlanRequest& request);

// Returns the table in the file; an empty one if there is no file, and with a warning if the file cannot be used.
TuningTable read_tuning_table(FileSystem& files, const std::string& path, std::vector<std::string>& warnings);

// Writes the table, creating the folder. Returns a warning if that fails; the run continues without the file.
std::string keep_tuning_table(FileSystem& files, const std::string& path, const TuningTable& table);

}  // namespace plimsoll
