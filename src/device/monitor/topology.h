// The connections between the GPUs of this machine, as nvidia-smi topo -m shows them, and its NUMA nodes. Values; the
// functions that format them are pure, the others read the driver and Linux's /sys. Thread-safe. Errors: none; what the
// driver does not report is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/monitor/host.h"
#include "device/monitor/nvml.h"

namespace plimsoll {

// The kinds of paths between two GPUs over PCI Express, from the shortest to the longest.
enum class PciPath : uint8_t {
  kUnknown,     // the driver does not report the path
  kOneBridge,   // called PIX by nvidia-smi: through a single PCI Express bridge, or on one board
  kBridges,     // called PXB: through several PCI Express bridges
  kHostBridge,  // called PHB: through a host bridge
  kNode,        // called NODE: between host bridges of one NUMA node
  kSystem,      // called SYS: between NUMA nodes
};

struct TopologyGpu {
  int index = 0;  // number by which nvidia-smi lists the GPU
  std::string name = {};
  std::string fault = {};       // the reason why nothing can be read from the GPU; "" if something can
  std::optional<int> sm = {};   // compute capability, 90 for 9.0
  std::vector<int> cpus = {};   // processors that are closest to the GPU
  std::vector<int> nodes = {};  // NUMA nodes of these processors
  PcieLink pcie = {};
  std::optional<int> nvlink_version =
      {};  // NVML's number of the NVLink version, which differs from the number of the generation
  std::optional<double> nvlink_gb_per_s =
      {};  // rate of one NVLink in each direction, as the driver reports it
  friend bool operator==(const TopologyGpu&, const TopologyGpu&) = default;
};

// The connection of two GPUs.
struct GpuPair {
  PciPath path = PciPath::kUnknown;
  // number of active NVLinks between the two GPUs; if they are connected by a switch, the smaller of their numbers of links
  // to it
  int num_nvlinks = 0;
  bool through_switch =
      false;  // true if the NVLinks lead to NVSwitches, which connect all GPUs with each other
  std::optional<bool> maps_memory =
      {};  // true if the GPU of the matrix row can map the memory of the GPU of the matrix column
  // The reason that the driver gives if the memory cannot be mapped, as a part of a sentence.
  std::string why_not_mapped = {};
  friend bool operator==(const GpuPair&, const GpuPair&) = default;
};

struct NumaNode {
  int index = 0;
  std::vector<int> cpus = {};
  int64_t memory_bytes = 0;
  // distance to each NUMA node in the order of the nodes; it is 10 for the node itself
  std::vector<int> distances = {};
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

struct Topology {
  std::string driver = {};      // version of the driver
  std::string why_no_gpu = {};  // the reason why no GPU is listed, as a part of a sentence
  std::vector<TopologyGpu> gpus = {};
  // a matrix with one row and one column per GPU, stored row by row; the pairs of a GPU with itself are empty
  std::vector<GpuPair> pairs = {};
  std::vector<NumaNode> nodes = {};
  std::vector<int> usable_cpus = {};  // processors that this process may use

  const GpuPair& pair(size_t row, size_t column) const { return pairs[row * gpus.size() + column]; }
  friend bool operator==(const Topology&, const Topology&) = default;
};

// Returns the NUMA nodes that Linux lists; empty if it lists none.
std::vector<NumaNode> numa_nodes(const SystemPaths& paths = {});
// Returns the amount of processor time that this process may use, as a number of processors: for example 1.5 for a container that
// was started with "--cpus 1.5". It is the lowest limit of the process's control groups (version 1 or 2). Empty without a limit.
std::optional<double> cgroup_processors(const SystemPaths& paths = {});
// Returns the numbers of the processors that this process may use; empty if the system does not report them.
std::vector<int> usable_cpus();
// Returns the GPUs and their connections, or, without a driver, the reason why there are none.
Topology gpu_topology(const Nvml& nvml);
// Returns the complete topology: the GPUs and their connections, the NUMA nodes, and the processors that this process may use.
Topology read_topology(const Nvml& nvml, const SystemPaths& paths = {});

// Formats a list of numbers as Linux does: "0-3,8". Returns "" for an empty list.
std::string format_ranges(const std::vector<int>& numbers);

// Returns the generation of the NVLinks of a GPU, 4 for NVLink 4; nothing if it is unknown. It follows from the compute
// capability, because drivers report different versions for one card.
std::optional<int> nvlink_generation(const TopologyGpu& gpu);
// Returns the rate in GB/s of one NVLink in each direction: that of the generation (NVIDIA's data sheets of the V100, A100,
// H100 and B200: 300, 600, 900 and 1800 GB/s in both directions over 6, 12, 18 and 18 links; the white papers of the P100
// and of GA102: 20 and 14.0625), or else what the driver reports.
std::optional<double> nvlink_gb_per_s(const TopologyGpu& gpu);
// Returns the rate in GB/s of a PCI Express link in each direction, after its encoding (PCI Express Base Specification:
// 2.5 and 5 GT/s with 8b/10b, 8 to 32 GT/s with 128b/130b, 64 GT/s with 242 of 256 bytes); nothing if it is unknown.
std::optional<double> pcie_gb_per_s(const PcieLink& link);
// Returns the rate in GB/s between two GPUs in each direction: that of their NVLinks, otherwise that of the slower PCI
// Express link.
std::optional<double> pair_gb_per_s(const Topology& topology, size_t row, size_t column);
// Returns the text for two GPUs in the matrix of nvidia-smi topo -m: "X", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS" or "N/A".
std::string link_label(const Topology& topology, size_t row, size_t column);

// Returns the matrix of nvidia-smi topo -m with its legend, and the consequences of each kind of link for training with DDP and
// ZeRO. Without a GPU, returns the NUMA nodes and explains how ranks on CPUs would exchange data. Ends with a newline.
std::string topology_text(const Topology& topology);
// Returns the topology as a JSON object on one line, without a newline.
std::string topology_json(const Topology& topology);

}  // namespace plimsoll
