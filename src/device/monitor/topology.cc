#include "device/monitor/topology.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "device/monitor/nvml_interface.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int> number_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Parses Linux's lists of processors: "0-3,8". Parts that are no numbers are left out.
std::vector<int> numbers_in_ranges(std::string_view text) {
  constexpr int kMost = 1 << 16;
  std::vector<int> numbers;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t dash = std::min(part.find('-'), part.size());
    const std::optional<int> first = number_in(part.substr(0, dash));
    const std::optional<int> last = dash == part.size() ? first : number_in(part.substr(dash + 1));
    if (!first || !last || *last > kMost) continue;
    for (int number = *first; number <= *last; ++number) numbers.push_back(number);
  }
  return numbers;
}

// Returns the memory of a node from a line such as "Node 0 MemTotal:       65850000 kB".
int64_t node_memory_bytes(const fs::path& meminfo) {
  std::ifstream file(meminfo);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string node, index, name;
    int64_t kilobytes = 0;
    if (words >> node >> index >> name >> kilobytes && name == "MemTotal:") return kilobytes * 1024;
  }
  return 0;
}

// The rate of one NVLink for known compute capabilities.
struct NvLinkRate {
  int sm;
  int generation;
  double gb_per_s;
};
constexpr NvLinkRate kNvLinkRates[] = {{60, 1, 20},      {70, 2, 25}, {75, 2, 25},  {80, 3, 25},
                                       {86, 3, 14.0625}, {90, 4, 25}, {100, 5, 50}, {103, 5, 50}};

const NvLinkRate* nvlink_rate(const TopologyGpu& gpu) {
  const auto* const found = std::ranges::find_if(
      kNvLinkRates, [&](const NvLinkRate& rate) { return gpu.sm && rate.sm == *gpu.sm; });
  return found == std::end(kNvLinkRates) ? nullptr : found;
}

std::optional<double> smaller_of(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(std::min(*a, *b)) : std::nullopt;
}

}  // namespace

std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<NumaNode> numa_nodes(const SystemPaths& paths) {
  std::vector<NumaNode> nodes;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(paths.nodes, ignored)) {
    constexpr std::string_view kPrefix = "node";
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const std::optional<int> index = number_in(std::string_view(name).substr(kPrefix.size()));
    if (!index) continue;
    NumaNode& node =
        nodes.emplace_back(NumaNode{.index = *index,
                                    .cpus = numbers_in_ranges(first_line(entry.path() / "cpulist")),
                                    .memory_bytes = node_memory_bytes(entry.path() / "meminfo")});
    std::istringstream distances(first_line(entry.path() / "distance"));
    for (int distance = 0; distances >> distance;) node.distances.push_back(distance);
  }
  std::ranges::sort(nodes, {}, &NumaNode::index);
  return nodes;
}

Topology read_topology(const Nvml& nvml, const SystemPaths& paths) {
  Topology topology = gpu_topology(nvml);
  topology.nodes = numa_nodes(paths);
  topology.usable_cpus = usable_cpus();
  return topology;
}

std::string format_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

std::optional<int> nvlink_generation(const TopologyGpu& gpu) {
  if (const NvLinkRate* rate = nvlink_rate(gpu)) return rate->generation;
  // The array maps NVML's version number, which counts NVLink 2.2 and 3.1 separately, to the generation of NVLink.
  constexpr std::array kGenerations{0, 1, 2, 2, 3, 3, 4, 5};
  const int version = gpu.nvlink_version.value_or(0);
  if (version < 1 || version >= static_cast<int>(kGenerations.size())) return std::nullopt;
  return kGenerations[static_cast<size_t>(version)];
}

std::optional<double> nvlink_gb_per_s(const TopologyGpu& gpu) {
  if (const NvLinkRate* rate = nvlink_rate(gpu)) return rate->gb_per_s;
  return gpu.nvlink_gb_per_s;
}

std::optional<double> pcie_gb_per_s(const PcieLink& link) {
  // The rate in GB/s per lane of each PCI Express generation.
  constexpr std::array kRates{0.0,
                              2.5 * 8 / 10 / 8,
                              5.0 * 8 / 10 / 8,
                              8.0 * 128 / 130 / 8,
                              16.0 * 128 / 130 / 8,
                              32.0 * 128 / 130 / 8,
                              64.0 * 242 / 256 / 8};
  // The current generation of a PCI Express link cannot be used, because an idle card lowers it. The card does not lower the
  // width, so the highest generation is combined with the current width.
  const int generation = link.max_generation.value_or(link.generation.value_or(0));
  const int width = link.width.value_or(link.max_width.value_or(0));
  if (generation < 1 || generation >= static_cast<int>(kRates.size()) || width < 1) return std::nullopt;
  return kRates[static_cast<size_t>(generation)] * width;
}

std::optional<double> pair_gb_per_s(const Topology& topology, size_t row, size_t column) {
  const TopologyGpu& one = topology.gpus[row];
  const TopologyGpu& other = topology.gpus[column];
  const GpuPair& pair = topology.pair(row, column);
  if (pair.num_nvlinks == 0) return smaller_of(pcie_gb_per_s(one.pcie), pcie_gb_per_s(other.pcie));
  const std::optional<double> rate = smaller_of(nvlink_gb_per_s(one), nvlink_gb_per_s(other));
  return rate ? std::optional(*rate * pair.num_nvlinks) : std::nullopt;
}

std::string link_label(const Topology& topology, size_t row, size_t column) {
  if (row == column) return "X";
  const GpuPair& pair = topology.pair(row, column);
  if (pair.num_nvlinks > 0) return fmt::format("NV{}", pair.num_nvlinks);
  switch (pair.path) {
    case PciPath::kOneBridge:
      return "PIX";
    case PciPath::kBridges:
      return "PXB";
    case PciPath::kHostBridge:
      return "PHB";
    case PciPath::kNode:
      return "NODE";
    case PciPath::kSystem:
      return "SYS";
    case PciPath::kUnknown:
      break;
  }
  return "N/A";
}

}  // namespace plimsoll
