#include "device/monitor/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace plimsoll {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n\r") - first + 1);
}

// Returns the value of `name` in a file with lines "name: value", or an empty text if there is no such line.
std::string_view field(std::string_view text, std::string_view name) {
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, end - start);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == name)
      return trimmed(line.substr(colon + 1));
    start = end + 1;
  }
  return {};
}

template <typename T>
std::optional<T> leading_number(std::string_view text) {
  text = trimmed(text);
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

int64_t kilobytes(std::string_view text, std::string_view name) {
  return leading_number<int64_t>(field(text, name)).value_or(0) * 1024;
}

// Reads a memory limit of a control group, and keeps it if it is lower than the lowest so far. Without a limit, the file contains
// a number near 2^63 (version 1) or "max" (version 2).
void consider(MachineMemory& memory, const std::string& limit_file, const std::string& usage_file) {
  const std::optional<int64_t> limit = leading_number<int64_t>(file_text(limit_file));
  if (!limit || *limit >= (int64_t{1} << 60)) return;
  if (memory.cgroup_limit_bytes && *memory.cgroup_limit_bytes <= *limit) return;
  memory.cgroup_limit_bytes = limit;
  memory.cgroup_used_bytes = leading_number<int64_t>(file_text(usage_file));
}

// Reads the limits of a control group and of all its parents.
void consider_with_parents(MachineMemory& memory, const std::string& root, std::string group,
                           std::string_view limit_name, std::string_view usage_name) {
  while (true) {
    const std::string folder = root + (group == "/" ? "" : group) + "/";
    consider(memory, folder + std::string(limit_name), folder + std::string(usage_name));
    const size_t slash = group.rfind('/');
    if (group.size() <= 1 || slash == std::string::npos) return;
    group = slash == 0 ? "/" : group.substr(0, slash);
  }
}

}  // namespace

ProcessMemory process_memory(const SystemPaths& paths) {
  const std::string text = file_text(paths.proc + "/self/status");
  return {.resident_bytes = kilobytes(text, "VmRSS"),
          .peak_bytes = kilobytes(text, "VmHWM"),
          .swapped_bytes = kilobytes(text, "VmSwap")};
}

int64_t MachineMemory::takeable_bytes() const {
  if (!cgroup_limit_bytes) return available_bytes;
  return std::min(available_bytes, std::max<int64_t>(0, *cgroup_limit_bytes - cgroup_used_bytes.value_or(0)));
}

MachineMemory machine_memory(const SystemPaths& paths) {
  const std::string text = file_text(paths.proc + "/meminfo");
  MachineMemory memory{.total_bytes = kilobytes(text, "MemTotal"),
                       .available_bytes = kilobytes(text, "MemAvailable")};
  std::istringstream groups(file_text(paths.proc + "/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    // A line of /proc/self/cgroup is "hierarchy:controllers:path". Control groups of version 2 have hierarchy 0 and no
    // controllers.
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      consider_with_parents(memory, paths.cgroup, group, "memory.max", "memory.current");
    } else if (controllers == "memory") {
      consider_with_parents(memory, paths.cgroup + "/memory", group, "memory.limit_in_bytes",
                            "memory.usage_in_bytes");
    }
  }
  return memory;
}

std::string shortage_text(int64_t needed_bytes, const MachineMemory& memory) {
  if (memory.total_bytes == 0 || needed_bytes <= memory.takeable_bytes()) return {};
  constexpr double kGiB = 1073741824.0;
  const bool is_group = memory.takeable_bytes() < memory.available_bytes;
  return fmt::format(
      "the run needs {:.2f} GiB, but {} has only {:.2f} GiB left: the system may swap or end the run. Run "
      "with --memory_limit {}MiB to see what would fit",
      static_cast<double>(needed_bytes) / kGiB, is_group ? "this process's control group" : "this machine",
      static_cast<double>(memory.takeable_bytes()) / kGiB, memory.takeable_bytes() >> 20);
}

std::string cpu_name(const SystemPaths& paths) {
  return std::string(field(file_text(paths.proc + "/cpuinfo"), "model name"));
}

std::string host_name(const SystemPaths& paths) {
  return std::string(trimmed(file_text(paths.proc + "/sys/kernel/hostname")));
}

bool has_cpu_flag(std::initializer_list<std::string_view> names, const SystemPaths& paths) {
  const std::string text = file_text(paths.proc + "/cpuinfo");
  std::istringstream flags{std::string(field(text, "flags"))};
  for (std::string flag; flags >> flag;) {
    if (std::ranges::find(names, std::string_view(flag)) != names.end()) return true;
  }
  return false;
}

std::string describe_isa(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return "no AVX2";
    case CpuIsa::kAvx2:
      return "AVX2";
    case CpuIsa::kAvx512:
      return "AVX-512";
    case CpuIsa::kAvx512Bf16:
      return "AVX-512 + BF16";
    case CpuIsa::kAmx:
      return "AVX-512 + AMX";
  }
  return "?";
}

std::string cpu_device_line(int num_threads, CpuIsa isa, const std::string& name) {
  return fmt::format("device cpu: {}{}{} thread{}, {}", name, name.empty() ? "" : ", ", num_threads,
                     num_threads == 1 ? "" : "s", describe_isa(isa));
}

}  // namespace plimsoll
