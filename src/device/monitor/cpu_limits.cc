#include "device/monitor/topology.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace plimsoll {
namespace {

// Reads a limit on processor time from files of a control group: the quota divided by the period. If `period_file` is empty, both
// numbers are in quota_file (control groups of version 2, which write "max" if there is no limit). Returns nothing if there is no
// limit.
std::optional<double> quota_in(const std::string& quota_file, const std::string& period_file) {
  std::ifstream file(quota_file);
  double quota = 0, period = 0;
  if (!(file >> quota)) return std::nullopt;
  if (period_file.empty()) {
    file >> period;
  } else {
    std::ifstream(period_file) >> period;
  }
  // Control groups of version 1 contain the quota -1 if there is no limit.
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

}  // namespace

std::optional<double> cgroup_processors(const SystemPaths& paths) {
  std::optional<double> lowest;
  const auto consider = [&](std::optional<double> limit) {
    if (limit) lowest = std::min(lowest.value_or(*limit), *limit);
  };
  std::ifstream groups(paths.proc + "/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // A line of /proc/self/cgroup is "hierarchy:controllers:path". Control groups of version 2 have hierarchy 0 and no
    // controllers.
    std::istringstream parts(line);
    std::string hierarchy, controllers, group;
    if (!std::getline(parts, hierarchy, ':') || !std::getline(parts, controllers, ':') ||
        !std::getline(parts, group))
      continue;
    const bool is_cpu = ("," + controllers + ",").find(",cpu,") != std::string::npos;
    if (!controllers.empty() && !is_cpu) continue;
    // Visit the group and all its parents, because the limit of a group also applies to the groups below it.
    while (true) {
      const std::string below = group == "/" ? "" : group;
      if (controllers.empty()) {
        consider(quota_in(paths.cgroup + below + "/cpu.max", ""));
      } else {
        const std::string folder = paths.cgroup + "/cpu" + below;
        consider(quota_in(folder + "/cpu.cfs_quota_us", folder + "/cpu.cfs_period_us"));
      }
      const size_t slash = group.rfind('/');
      if (group.size() <= 1 || slash == std::string::npos) break;
      group = slash == 0 ? "/" : group.substr(0, slash);
    }
  }
  return lowest;
}

}  // namespace plimsoll
