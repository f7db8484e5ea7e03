#include "run/states_folder.h"

#include <sys/statvfs.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/units.h"
#include "device/monitor/host.h"
#include "run/caches.h"

namespace plimsoll {

std::string states_file(const Arguments& arguments, int64_t rank) {
  return join_path(nvme_folder(arguments), fmt::format("plimsoll-optimizer-states-rank{}", rank));
}

int64_t require_writable_folder(const std::string& folder, const std::string& argument, FileSystem& files) {
  const std::optional<FileStatus> status = files.status(folder);
  if (!status || status->kind != FileKind::kFolder) {
    throw_error(ErrorCode::kUsage, "{}: '{}' {}; create it, or name another folder", argument, folder,
                status ? "is not a folder" : "does not exist");
  }
  const FolderSpace space = files.space_of(folder);
  if (!space.is_writable) {
    throw_error(ErrorCode::kUsage,
                "{}: this user may not write to '{}'; change its permissions, or name another folder",
                argument, folder);
  }
  return space.free_bytes;
}

void require_folder_with_room(const std::string& folder, const std::string& argument, int64_t needed,
                              FileSystem& files) {
  const int64_t available = require_writable_folder(folder, argument, files);
  if (needed <= available) return;
  throw_error(ErrorCode::kWillNotFit,
              "{}: a file of {} bytes ({} MiB) is needed on the disk of '{}', where {} bytes ({} MiB) are "
              "available; free "
              "space there, or name a folder on another disk",
              argument, needed, needed / kMiB, folder, available, available / kMiB);
}

void require_states_folder(const Plan& plan, const Arguments& arguments, FileSystem& files,
                           int64_t first_rank, int64_t num_ranks) {
  if (plan.disk_bytes == 0) return;
  const std::string folder = nvme_folder(arguments);
  const std::string argument = fmt::format("--offload_optimizer nvme:{}", folder);
  int64_t available = require_writable_folder(folder, argument, files);
  // The run will replace files that a killed run left, so their bytes count as available. A file that another run has open is counted
  // too: create_scratch() then reports the other run, which is more helpful than a message about missing space.
  for (int64_t rank = first_rank; rank < first_rank + num_ranks; ++rank) {
    const std::optional<FileStatus> old = files.status(states_file(arguments, rank));
    if (old && old->kind == FileKind::kFile) available += old->size_bytes;
  }
  const int64_t needed = num_ranks * plan.disk_bytes;
  if (needed <= available) return;
  throw_error(ErrorCode::kWillNotFit,
              "{}: the optimizer states of {} need {} bytes ({} MiB) on the disk of '{}', where {} bytes ({} "
              "MiB) are "
              "available; free space there, or name a folder on another disk",
              argument, counted(num_ranks, "rank"), needed, needed / kMiB, folder, available,
              available / kMiB);
}

std::string disk_rates_path(const std::string& folder, const Environment& environment) {
  const std::string cache = cache_folder("disks", environment);
  struct statvfs status {};
  if (cache.empty() || ::statvfs(folder.c_str(), &status) != 0) return {};
  return join_path(
      cache, fmt::format("{}.json", to_hex(hash64(fmt::format("{}\n{:x}", host_name(), status.f_fsid)))));
}

DiskRates read_disk_rates(const Arguments& arguments, const Environment& environment, FileSystem& files,
                          std::vector<std::string>& warnings) {
  constexpr int64_t kMost = int64_t{1} << 20;
  const std::string folder = nvme_folder(arguments);
  const std::string path = folder.empty() ? "" : disk_rates_path(folder, environment);
  if (path.empty() || !is_in_cache(files, path)) return {};
  try {
    return parse_disk_rates(read_text_file(files, path, kMost), path);
  } catch (const Error& error) {
    warnings.push_back(std::string(error.what()) + "; the rates of the disk are assumed");
    return {};
  }
}

}  // namespace plimsoll
