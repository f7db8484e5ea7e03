#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/units.h"
#include "device/monitor/topology.h"
#include "hardware/cpu_efficiency.h"
#include "hardware/gpu_constant.h"
#include "hardware/gpu_efficiency.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumns = 80;

// The legend that explains the entries of the matrix, as nvidia-smi topo -m prints it.
constexpr const char* kLegend =
    "Legend:\n"
    "\n"
    "  X    = Self\n"
    "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
    "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA "
    "node\n"
    "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n"
    "  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)\n"
    "  PIX  = Connection traversing at most a single PCIe bridge\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n";

// Appends sentences as a paragraph with an indent of two blanks.
void add_paragraph(std::string& text, std::string_view words) {
  std::string line = " ";
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (line.size() + 1 + end > kColumns) {
      text += line + "\n";
      line = " ";
    }
    line += " ";
    line += words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  text += line + "\n";
}

std::string short_rate(double gb_per_s) {
  return fmt::format("{:.4g} GB/s", gb_per_s);
}

std::string ranges_or_none(const std::vector<int>& numbers) {
  return numbers.empty() ? "N/A" : format_ranges(numbers);
}

// Formats a table. Each column is as wide as its widest cell, and there are `gap` blanks between columns.
std::string aligned(const std::vector<std::vector<std::string>>& rows, size_t gap = 2) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}", row[i], widths[i] + gap);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string matrix_text(const Topology& topology) {
  std::vector<std::vector<std::string>> rows{{""}};
  for (const TopologyGpu& gpu : topology.gpus) rows.front().push_back(fmt::format("GPU{}", gpu.index));
  rows.front().insert(rows.front().end(), {"CPU Affinity", "NUMA Affinity"});
  for (size_t row = 0; row < topology.gpus.size(); ++row) {
    const TopologyGpu& gpu = topology.gpus[row];
    std::vector<std::string>& cells = rows.emplace_back();
    cells.push_back(fmt::format("GPU{}", gpu.index));
    for (size_t column = 0; column < topology.gpus.size(); ++column) {
      const std::string label = link_label(topology, row, column);
      cells.push_back(row == column ? " " + label : label);
    }
    cells.push_back(ranges_or_none(gpu.cpus));
    cells.push_back(ranges_or_none(gpu.nodes));
  }
  return aligned(rows, 4);
}

using PairIndex = std::pair<size_t, size_t>;

// A kind of link, such as NVLink or a path over PCI Express, and all pairs of GPUs that are connected by links of this kind.
struct LinkKind {
  std::vector<PairIndex> pairs = {};
  std::string label = {};
  std::optional<double> gb_per_s = {};
};

bool is_same_kind(const Topology& topology, const PairIndex& a, const PairIndex& b) {
  const GpuPair& one = topology.pair(a.first, a.second);
  const GpuPair& other = topology.pair(b.first, b.second);
  return link_label(topology, a.first, a.second) == link_label(topology, b.first, b.second) &&
         pair_gb_per_s(topology, a.first, a.second) == pair_gb_per_s(topology, b.first, b.second) &&
         one.maps_memory == other.maps_memory && one.why_not_mapped == other.why_not_mapped &&
         one.through_switch == other.through_switch;
}

// Returns the kinds of links from the fastest to the slowest. A kind whose rate is unknown counts as the slowest.
std::vector<LinkKind> link_kinds(const Topology& topology) {
  std::vector<LinkKind> kinds;
  for (size_t row = 0; row < topology.gpus.size(); ++row) {
    for (size_t column = row + 1; column < topology.gpus.size(); ++column) {
      const PairIndex pair{row, column};
      const auto found = std::ranges::find_if(
          kinds, [&](const LinkKind& kind) { return is_same_kind(topology, kind.pairs.front(), pair); });
      if (found != kinds.end()) {
        found->pairs.push_back(pair);
      } else {
        kinds.push_back({.pairs = {pair},
                         .label = link_label(topology, row, column),
                         .gb_per_s = pair_gb_per_s(topology, row, column)});
      }
    }
  }
  std::ranges::stable_sort(kinds, [](const LinkKind& a, const LinkKind& b) {
    return a.gb_per_s.value_or(0) > b.gb_per_s.value_or(0);
  });
  return kinds;
}

std::string list_pairs(const Topology& topology, const LinkKind& kind) {
  constexpr size_t kShown = 6;
  const size_t num_gpus = topology.gpus.size();
  if (num_gpus > 2 && kind.pairs.size() == num_gpus * (num_gpus - 1) / 2)
    return fmt::format("all {} pairs of GPUs", kind.pairs.size());
  std::string text = "GPU ";
  for (size_t i = 0; i < std::min(kind.pairs.size(), kShown); ++i) {
    text += fmt::format("{}{} and {}", i == 0 ? "" : ", ", topology.gpus[kind.pairs[i].first].index,
                        topology.gpus[kind.pairs[i].second].index);
  }
  if (kind.pairs.size() > kShown) text += fmt::format(", {} more pairs", kind.pairs.size() - kShown);
  return text;
}

std::string describe_nvlinks(const Topology& topology, const LinkKind& kind) {
  const auto [row, column] = kind.pairs.front();
  const GpuPair& pair = topology.pair(row, column);
  const TopologyGpu& gpu = topology.gpus[row];
  const std::optional<int> generation = nvlink_generation(gpu);
  std::string text = generation ? fmt::format("NVLink {}", *generation) : "NVLink of an unknown generation";
  text += ", " + counted(pair.num_nvlinks, "link");
  if (kind.gb_per_s) {
    text += fmt::format(" of {}{}: {} in each direction", short_rate(*kind.gb_per_s / pair.num_nvlinks),
                        pair.num_nvlinks == 1 ? "" : " each", short_rate(*kind.gb_per_s));
  } else {
    text += "; the driver does not report their rate";
  }
  if (pair.through_switch)
    text += ". The links lead to NVSwitches: every GPU reaches every other one at this rate";
  return text + ".";
}

// Returns a description of the PCI Express link of the first pair of GPUs of this kind, such as "PCI Express 4.0 x16: ...". If the links of
// the two GPUs differ, the slower link is described.
std::string describe_pcie(const Topology& topology, const LinkKind& kind) {
  const auto [row, column] = kind.pairs.front();
  const PcieLink& one = topology.gpus[row].pcie;
  const PcieLink& other = topology.gpus[column].pcie;
  if (!kind.gb_per_s) return "PCI Express; the driver does not report its generation and width.";
  const PcieLink& slower = *pcie_gb_per_s(one) <= *pcie_gb_per_s(other) ? one : other;
  return fmt::format("PCI Express {}.0 x{}: {} in each direction, which copies to and from the host share.",
                     slower.max_generation.value_or(slower.generation.value_or(0)),
                     slower.width.value_or(slower.max_width.value_or(0)), short_rate(*kind.gb_per_s));
}

std::string describe_mapping(const GpuPair& pair) {
  if (!pair.maps_memory) return "The driver does not report if these GPUs can map each other's memory.";
  if (*pair.maps_memory) {
    return "The GPUs can map each other's memory: ranks exchange gradients by copy engines and do not need "
           "NCCL.";
  }
  return fmt::format(
      "The GPUs cannot map each other's memory ({}): ranks need NCCL, which copies through the memory of the "
      "host at less than this rate.",
      pair.why_not_mapped);
}

void add_kind(std::string& text, const Topology& topology, const LinkKind& kind) {
  const auto [row, column] = kind.pairs.front();
  const GpuPair& pair = topology.pair(row, column);
  text += fmt::format("\n{}: {}\n", kind.label, list_pairs(topology, kind));
  add_paragraph(text,
                pair.num_nvlinks > 0 ? describe_nvlinks(topology, kind) : describe_pcie(topology, kind));
  add_paragraph(text, describe_mapping(pair));
}

// Formats the size and the duration of an exchange in which a rank sends `values` values per parameter.
std::string cost_text(double values, double bytes_per_value, double gb_per_s) {
  const double gigabytes = values * bytes_per_value;
  const double seconds = gigabytes / gb_per_s;
  return seconds < 1 ? fmt::format("{:.1f} GB, {:.1f} ms", gigabytes, 1e3 * seconds)
                     : fmt::format("{:.1f} GB, {:.1f} s", gigabytes, seconds);
}

// Returns table rows that state how many bytes each of n ranks sends per training step of a model with 1e9 parameters, and how
// long that takes at this rate.
std::string exchange_rows(int n, double gb_per_s) {
  const double share = static_cast<double>(n - 1) / n;
  std::vector<std::vector<std::string>> rows{
      {"", "values per parameter", "in bf16", "in fp32"},
      {"  DDP, ZeRO-1, ZeRO-2", fmt::format("2 (n - 1) / n = {:.2f}", 2 * share),
       cost_text(2 * share, 2, gb_per_s), cost_text(2 * share, 4, gb_per_s)},
      {"  ZeRO-3", fmt::format("3 (n - 1) / n = {:.2f}", 3 * share), cost_text(3 * share, 2, gb_per_s),
       cost_text(3 * share, 4, gb_per_s)}};
  return aligned(rows);
}

constexpr const char* kWhatLinksDecide =
    "DDP exchanges gradients while the backward pass runs, so only the part that takes longer than that pass "
    "costs time. ZeRO-3 also gathers the weights of each layer before the layer runs, so it waits for slow "
    "links more "
    "often. --gradient_accumulation_steps exchanges less often.";

void add_training(std::string& text, const Topology& topology, const std::vector<LinkKind>& kinds) {
  const auto num_gpus = static_cast<int>(topology.gpus.size());
  const LinkKind& slowest = kinds.back();
  text += num_gpus == 2 ? "\nTraining on both GPUs\n" : fmt::format("\nTraining on all {} GPUs\n", num_gpus);
  if (!slowest.gb_per_s) {
    add_paragraph(text, fmt::format("The rate of the slowest link, {}, is unknown; plimsoll bench --links "
                                    "measures it.",
                                    slowest.label));
    return;
  }
  const double reached = assumed_peer_gb_per_s(*slowest.gb_per_s, num_gpus);
  add_paragraph(
      text,
      fmt::format("The slowest link, {}, limits the speed: {}, of which an exchange is assumed to reach "
                  "{:.0f} %, which is {}. plimsoll bench --links measures it. For 1e9 parameters, "
                  "each GPU sends per step:",
                  slowest.label, short_rate(*slowest.gb_per_s), 100 * reached / *slowest.gb_per_s,
                  short_rate(reached)));
  text += exchange_rows(num_gpus, reached);
  add_paragraph(text, kWhatLinksDecide);
  if (num_gpus > kMostPeers)
    add_paragraph(
        text, fmt::format("Mapped memory connects at most {} GPUs; runs on more GPUs use NCCL.", kMostPeers));
  if (kinds.size() == 1) return;
  const auto [row, column] = kinds.front().pairs.front();
  add_paragraph(text, fmt::format("For two ranks, GPU {} and {} have the fastest link ({}): "
                                  "CUDA_VISIBLE_DEVICES={},{}.",
                                  topology.gpus[row].index, topology.gpus[column].index, kinds.front().label,
                                  topology.gpus[row].index, topology.gpus[column].index));
}

void add_gpus(std::string& text, const Topology& topology) {
  text += fmt::format("driver {}, {}\n", topology.driver.empty() ? "of an unknown version" : topology.driver,
                      counted(topology.gpus.size(), "GPU"));
  for (const TopologyGpu& gpu : topology.gpus) {
    text += fmt::format("  GPU{}  {}\n", gpu.index, gpu.fault.empty() ? gpu.name : gpu.fault);
  }
  text += "\n" + matrix_text(topology) + "\n" + kLegend;
  if (topology.gpus.size() == 1) {
    text += "\n";
    add_paragraph(text, "There is only one GPU, so a run does not exchange data between GPUs.");
    return;
  }
  const std::vector<LinkKind> kinds = link_kinds(topology);
  for (const LinkKind& kind : kinds) add_kind(text, topology, kind);
  add_training(text, topology, kinds);
}

void add_nodes(std::string& text, const Topology& topology) {
  if (topology.nodes.empty()) {
    text += "Linux lists no NUMA nodes on this machine.\n";
    return;
  }
  std::vector<std::vector<std::string>> rows{{"NUMA node", "CPUs", "memory", "distance"}};
  for (const NumaNode& node : topology.nodes) {
    std::string distances;
    for (const int distance : node.distances)
      distances += fmt::format("{}{}", distances.empty() ? "" : " ", distance);
    rows.push_back({fmt::format("{}", node.index), ranges_or_none(node.cpus),
                    fmt::format("{} MiB", whole_mib(node.memory_bytes)), distances});
  }
  text += aligned(rows);
}

// Returns the NUMA nodes that contain a processor which this process may use.
std::vector<int> usable_nodes(const Topology& topology) {
  std::vector<int> indices;
  for (const NumaNode& node : topology.nodes) {
    const bool is_usable = std::ranges::any_of(node.cpus, [&](int cpu) {
      return std::ranges::find(topology.usable_cpus, cpu) != topology.usable_cpus.end();
    });
    if (is_usable) indices.push_back(node.index);
  }
  return indices;
}

void add_cpu_ranks(std::string& text, const Topology& topology) {
  const std::vector<int> nodes = usable_nodes(topology);
  const int num_ranks = std::max(2, static_cast<int>(nodes.size()));
  text += "\nWhat ranks on CPUs use\n";
  add_paragraph(
      text, fmt::format("This process may use {} ({}){}.", counted(topology.usable_cpus.size(), "processor"),
                        ranges_or_none(topology.usable_cpus),
                        nodes.empty() ? "" : " of " + counted(nodes.size(), "NUMA node")));
  add_paragraph(text,
                "plimsoll train --use_cpu --nproc_per_node N starts N ranks with an equal share of these "
                "processors each. They exchange data by TCP over the loopback interface, through Gloo.");
  if (nodes.size() > 1) {
    add_paragraph(
        text,
        "Memory of another node is slower. Plimsoll does not bind ranks to nodes: one rank per node "
        "is started with numactl --cpunodebind=NODE --membind=NODE and the variables of torchrun.");
  }
  add_paragraph(text,
                fmt::format("Plans assume {} between ranks until plimsoll bench --links --use_cpu "
                            "--nproc_per_node {} has measured it. For 1e9 parameters, each of {} ranks sends "
                            "per step:",
                            short_rate(kCpuRankLinkGbPerS), num_ranks, num_ranks));
  text += exchange_rows(num_ranks, kCpuRankLinkGbPerS);
  add_paragraph(text, kWhatLinksDecide);
}

Json path_json(const Topology& topology, size_t row, size_t column) {
  const GpuPair& pair = topology.pair(row, column);
  const std::optional<double> rate = pair_gb_per_s(topology, row, column);
  return {{"gpus", {topology.gpus[row].index, topology.gpus[column].index}},
          {"link", link_label(topology, row, column)},
          {"nvlinks", pair.num_nvlinks},
          {"through_nvswitch", pair.through_switch},
          {"gb_per_s", rate ? Json(*rate) : Json()},
          {"maps_memory", pair.maps_memory ? Json(*pair.maps_memory) : Json()},
          {"why_not_mapped", pair.why_not_mapped.empty() ? Json() : Json(pair.why_not_mapped)}};
}

bool has_nvlinks(const Topology& topology, size_t row) {
  for (size_t column = 0; column < topology.gpus.size(); ++column) {
    if (topology.pair(row, column).num_nvlinks > 0) return true;
  }
  return false;
}

Json gpu_json(const Topology& topology, size_t row) {
  const TopologyGpu& gpu = topology.gpus[row];
  const std::optional<int> generation = has_nvlinks(topology, row) ? nvlink_generation(gpu) : std::nullopt;
  const std::optional<double> pcie = pcie_gb_per_s(gpu.pcie);
  return {{"index", gpu.index},
          {"name", gpu.name.empty() ? Json() : Json(gpu.name)},
          {"fault", gpu.fault.empty() ? Json() : Json(gpu.fault)},
          {"cpus", gpu.cpus},
          {"numa_nodes", gpu.nodes},
          {"nvlink_generation", generation ? Json(*generation) : Json()},
          {"pcie_gb_per_s", pcie ? Json(*pcie) : Json()}};
}

}  // namespace

std::string topology_text(const Topology& topology) {
  std::string text;
  if (!topology.gpus.empty()) {
    add_gpus(text, topology);
    return text;
  }
  text = fmt::format("No GPU to show: {}; these are the NUMA nodes of the host.\n\n", topology.why_no_gpu);
  add_nodes(text, topology);
  add_cpu_ranks(text, topology);
  return text;
}

std::string topology_json(const Topology& topology) {
  Json object;
  object["driver"] = topology.driver.empty() ? Json() : Json(topology.driver);
  object["why_no_gpu"] = topology.why_no_gpu.empty() ? Json() : Json(topology.why_no_gpu);
  object["gpus"] = Json::array();
  for (size_t row = 0; row < topology.gpus.size(); ++row) object["gpus"].push_back(gpu_json(topology, row));
  object["links"] = Json::array();
  for (size_t row = 0; row < topology.gpus.size(); ++row) {
    for (size_t column = row + 1; column < topology.gpus.size(); ++column)
      object["links"].push_back(path_json(topology, row, column));
  }
  object["numa_nodes"] = Json::array();
  for (const NumaNode& node : topology.nodes) {
    object["numa_nodes"].push_back({{"index", node.index},
                                    {"cpus", node.cpus},
                                    {"memory_mib", whole_mib(node.memory_bytes)},
                                    {"distances", node.distances}});
  }
  object["usable_cpus"] = topology.usable_cpus;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace plimsoll
