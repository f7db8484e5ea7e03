// The file in which a run stores optimizer states on a disk (--offload_optimizer nvme:FOLDER).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "hardware/disk_rates.h"
#include "plan/compile/plan.h"
#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Returns the path of the file for a rank. Each rank has a different file.
std::string states_file(const Arguments& arguments, int64_t rank);

// Checks that a folder exists and that this user may write to it. `argument` is the text with which messages begin. Returns the number of
// free bytes on its disk. Errors: kUsage.
int64_t require_writable_folder(const std::string& folder, const std::string& argument, FileSystem& files);
// Checks a folder like require_writable_folder(), and also that its disk has enough free space for a file. Errors: kUsage; kWillNotFit
// with both sizes.
void require_folder_with_room(const std::string& folder, const std::string& argument, int64_t needed,
                              FileSystem& files);

// Checks that the folder for optimizer states on a disk exists, that this user may write to it, and that it has room for the files of
// `num_ranks` ranks of this machine, from `first_rank` on. The space of existing files of these ranks counts as free, because the run
// replaces them. Does nothing for a plan that stores nothing on a disk. Errors: kUsage; kWillNotFit with both sizes.
void require_states_folder(const Plan& plan, const Arguments& arguments, FileSystem& files,
                           int64_t first_rank, int64_t num_ranks);

// Returns the file in the user's cache with the measured rates of the disk on which this folder is; "" without a cache or a folder.
// `plimsoll bench --disk` measures them.
std::string disk_rates_path(const std::string& folder, const Environment& environment);
// Returns the rates of the disk of --offload_optimizer nvme:FOLDER. If they were not measured, or, with a warning, if the file with
// measurements is damaged, returns assumed rates.
DiskRates read_disk_rates(const Arguments& arguments, const Environment& environment, FileSystem& files,
                          std::vector<std::string>& warnings);

}  // namespace plimsoll
