// Reads the connections between GPUs from NVML.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "device/monitor/nvml_interface.h"
#include "device/monitor/topology.h"

namespace plimsoll {
namespace {

using namespace nvml;

// Functions of NVML that only the topology needs. A function that the driver lacks is null.
struct TopologyFunctions {
  int (*count)(unsigned int*) = nullptr;
  int (*device_by_index)(unsigned int, Device*) = nullptr;
  int (*name)(Device, char*, unsigned int) = nullptr;
  int (*compute_capability)(Device, int*, int*) = nullptr;
  int (*pci_info)(Device, PciInfo*) = nullptr;
  int (*common_ancestor)(Device, Device, unsigned int*) = nullptr;
  int (*p2p_status)(Device, Device, unsigned int, unsigned int*) = nullptr;
  int (*cpu_affinity)(Device, unsigned int, unsigned long*) = nullptr;
  int (*memory_affinity)(Device, unsigned int, unsigned long*, unsigned int) = nullptr;
  int (*nvlink_state)(Device, unsigned int, unsigned int*) = nullptr;
  int (*nvlink_version)(Device, unsigned int, unsigned int*) = nullptr;
  int (*nvlink_remote_type)(Device, unsigned int, unsigned int*) = nullptr;
  int (*nvlink_remote_pci)(Device, unsigned int, PciInfo*) = nullptr;
  int (*field_values)(Device, int, FieldValue*) = nullptr;
  int (*pcie_generation)(Device, unsigned int*) = nullptr;
  int (*max_pcie_generation)(Device, unsigned int*) = nullptr;
  int (*pcie_width)(Device, unsigned int*) = nullptr;
  int (*max_pcie_width)(Device, unsigned int*) = nullptr;

  explicit TopologyFunctions(const Nvml& library) {
    const auto find = [&](const char* symbol, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.symbol(symbol));
    };
    find("nvmlDeviceGetCount_v2", count);
    find("nvmlDeviceGetHandleByIndex_v2", device_by_index);
    find("nvmlDeviceGetName", name);
    find("nvmlDeviceGetCudaComputeCapability", compute_capability);
    find("nvmlDeviceGetPciInfo_v3", pci_info);
    find("nvmlDeviceGetTopologyCommonAncestor", common_ancestor);
    find("nvmlDeviceGetP2PStatus", p2p_status);
    find("nvmlDeviceGetCpuAffinity", cpu_affinity);
    find("nvmlDeviceGetMemoryAffinity", memory_affinity);
    find("nvmlDeviceGetNvLinkState", nvlink_state);
    find("nvmlDeviceGetNvLinkVersion", nvlink_version);
    find("nvmlDeviceGetNvLinkRemoteDeviceType", nvlink_remote_type);
    find("nvmlDeviceGetNvLinkRemotePciInfo_v2", nvlink_remote_pci);
    find("nvmlDeviceGetFieldValues", field_values);
    find("nvmlDeviceGetCurrPcieLinkGeneration", pcie_generation);
    find("nvmlDeviceGetMaxPcieLinkGeneration", max_pcie_generation);
    find("nvmlDeviceGetCurrPcieLinkWidth", pcie_width);
    find("nvmlDeviceGetMaxPcieLinkWidth", max_pcie_width);
  }
};

// The PCI address of a device without the function number, because the two ends of an NVLink may name different functions of one
// device.
using BusPlace = std::tuple<unsigned int, unsigned int, unsigned int>;

BusPlace place_of(const PciInfo& info) {
  return {info.domain, info.bus, info.device};
}

// The devices to which the active NVLinks of a GPU lead.
struct LinkEnds {
  std::map<BusPlace, int> gpus =
      {};  // number of links to each remote device, by its PCI address; the device may be a GPU or a switch
  int num_to_switches = 0;
};

struct OpenGpu {
  Device device = nullptr;
  std::optional<BusPlace> place = {};
  LinkEnds ends = {};
};

std::optional<int> read(int (*function)(Device, unsigned int*), Device device) {
  unsigned int value = 0;
  if (function == nullptr || function(device, &value) != kSuccess) return std::nullopt;
  return static_cast<int>(value);
}

std::vector<int> set_bits(const std::vector<unsigned long>& words) {
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::vector<int> bits;
  for (size_t i = 0; i < words.size() * kBits; ++i) {
    if ((words[i / kBits] >> (i % kBits) & 1) != 0) bits.push_back(static_cast<int>(i));
  }
  return bits;
}

void read_affinity(const TopologyFunctions& functions, Device device, TopologyGpu& gpu) {
  // Bit sets for 4096 processors and 1024 NUMA nodes, the limits in the usual configuration of Linux.
  std::vector<unsigned long> cpus(64), nodes(16);
  if (functions.cpu_affinity != nullptr &&
      functions.cpu_affinity(device, static_cast<unsigned int>(cpus.size()), cpus.data()) == kSuccess) {
    gpu.cpus = set_bits(cpus);
  }
  if (functions.memory_affinity != nullptr &&
      functions.memory_affinity(device, static_cast<unsigned int>(nodes.size()), nodes.data(),
                                kAffinityOfNode) == kSuccess) {
    gpu.nodes = set_bits(nodes);
  }
}

LinkEnds read_nvlinks(const TopologyFunctions& functions, Device device, TopologyGpu& gpu) {
  LinkEnds ends;
  if (functions.nvlink_state == nullptr) return ends;
  for (unsigned int link = 0; link < kMaxNvLinks; ++link) {
    unsigned int is_up = 0;
    if (functions.nvlink_state(device, link, &is_up) != kSuccess || is_up != 1) continue;
    unsigned int version = 0;
    if (functions.nvlink_version != nullptr && functions.nvlink_version(device, link, &version) == kSuccess) {
      gpu.nvlink_version = static_cast<int>(version);
    }
    unsigned int type = kNvLinkToGpu;
    const bool has_type = functions.nvlink_remote_type != nullptr &&
                          functions.nvlink_remote_type(device, link, &type) == kSuccess;
    if (has_type && type == kNvLinkToSwitch) {
      ++ends.num_to_switches;
      continue;
    }
    PciInfo remote{};
    if (functions.nvlink_remote_pci != nullptr &&
        functions.nvlink_remote_pci(device, link, &remote) == kSuccess) {
      ++ends.gpus[place_of(remote)];
    }
  }
  FieldValue speed{};
  speed.field = kFieldNvLinkMbPerS;
  if ((ends.num_to_switches > 0 || !ends.gpus.empty()) && functions.field_values != nullptr &&
      functions.field_values(device, 1, &speed) == kSuccess && speed.status == kSuccess &&
      speed.type == kValueUnsigned && speed.value.natural > 0) {
    gpu.nvlink_gb_per_s = speed.value.natural / 1000.0;
  }
  return ends;
}

OpenGpu open_gpu(const TopologyFunctions& functions, unsigned int index, TopologyGpu& gpu) {
  OpenGpu open;
  if (const int status = functions.device_by_index(index, &open.device); status != kSuccess) {
    gpu.fault = describe_nvml_status(status);
    return {};
  }
  std::array<char, kTextBytes> text{};
  if (functions.name != nullptr && functions.name(open.device, text.data(), kTextBytes) == kSuccess)
    gpu.name = text.data();
  int major = 0, minor = 0;
  if (functions.compute_capability != nullptr &&
      functions.compute_capability(open.device, &major, &minor) == kSuccess) {
    gpu.sm = major * 10 + minor;
  }
  PciInfo info{};
  if (functions.pci_info != nullptr && functions.pci_info(open.device, &info) == kSuccess)
    open.place = place_of(info);
  gpu.pcie = {.generation = read(functions.pcie_generation, open.device),
              .max_generation = read(functions.max_pcie_generation, open.device),
              .width = read(functions.pcie_width, open.device),
              .max_width = read(functions.max_pcie_width, open.device)};
  read_affinity(functions, open.device, gpu);
  open.ends = read_nvlinks(functions, open.device, gpu);
  return open;
}

PciPath path_of(unsigned int level) {
  switch (level) {
    case kTopologyInternal:
    case kTopologySingle:
      return PciPath::kOneBridge;
    case kTopologyMultiple:
      return PciPath::kBridges;
    case kTopologyHostBridge:
      return PciPath::kHostBridge;
    case kTopologyNode:
      return PciPath::kNode;
    case kTopologySystem:
      return PciPath::kSystem;
    default:
      return PciPath::kUnknown;
  }
}

const char* describe_p2p(unsigned int status) {
  switch (status) {
    case kP2pChipset:
      return "the chipset of the machine does not support peer access";
    case kP2pGpu:
    case kP2pNotSupported:
      return "the GPUs do not support peer access";
    case kP2pHostBridges:
      return "the connection between the CPU sockets does not support peer access";
    case kP2pDisabled:
      return "a setting of the driver disables peer access";
    default:
      return "the driver does not report the reason";
  }
}

// Reads whether one GPU can read and write the memory of the other.
void read_mapping(const TopologyFunctions& functions, Device one, Device other, GpuPair& pair) {
  if (functions.p2p_status == nullptr) return;
  for (const unsigned int use : {kP2pRead, kP2pWrite}) {
    unsigned int status = 0;
    if (functions.p2p_status(one, other, use, &status) != kSuccess) {
      pair.maps_memory.reset();
      return;
    }
    pair.maps_memory = status == kP2pOk;
    if (status == kP2pOk) continue;
    pair.why_not_mapped = describe_p2p(status);
    return;
  }
}

GpuPair read_pair(const TopologyFunctions& functions, const OpenGpu& one, const OpenGpu& other) {
  GpuPair pair;
  if (one.device == nullptr || other.device == nullptr) return pair;
  unsigned int level = 0;
  if (functions.common_ancestor != nullptr &&
      functions.common_ancestor(one.device, other.device, &level) == kSuccess) {
    pair.path = path_of(level);
  }
  read_mapping(functions, one.device, other.device, pair);
  if (other.place) {
    const auto direct = one.ends.gpus.find(*other.place);
    if (direct != one.ends.gpus.end()) pair.num_nvlinks = direct->second;
  }
  const int through_switches = std::min(one.ends.num_to_switches, other.ends.num_to_switches);
  if (pair.num_nvlinks == 0 && through_switches > 0) {
    pair.num_nvlinks = through_switches;
    pair.through_switch = true;
  }
  return pair;
}

// Finds the NVSwitches for older drivers, which do not report the type of a remote device. A remote device is a switch if it is
// not one of the listed GPUs and several GPUs have links to it.
void find_switches(std::vector<OpenGpu>& gpus) {
  std::map<BusPlace, int> num_gpus;
  for (const OpenGpu& gpu : gpus) {
    for (const auto& [place, links] : gpu.ends.gpus) ++num_gpus[place];
  }
  for (const OpenGpu& gpu : gpus) {
    if (gpu.place) num_gpus.erase(*gpu.place);
  }
  for (OpenGpu& gpu : gpus) {
    for (const auto& [place, count] : num_gpus) {
      const auto found = gpu.ends.gpus.find(place);
      if (count < 2 || found == gpu.ends.gpus.end()) continue;
      gpu.ends.num_to_switches += found->second;
      gpu.ends.gpus.erase(found);
    }
  }
}

}  // namespace

Topology gpu_topology(const Nvml& nvml) {
  Topology topology;
  if (!nvml.is_open()) {
    topology.why_no_gpu = nvml.why_not();
    return topology;
  }
  topology.driver = nvml.driver_version();
  const TopologyFunctions functions(nvml);
  unsigned int count = 0;
  if (functions.count(&count) != kSuccess || count == 0) {
    topology.why_no_gpu = "the NVIDIA driver lists none";
    return topology;
  }
  std::vector<OpenGpu> open;
  for (unsigned int index = 0; index < count; ++index) {
    TopologyGpu& gpu = topology.gpus.emplace_back(TopologyGpu{.index = static_cast<int>(index)});
    open.push_back(open_gpu(functions, index, gpu));
  }
  find_switches(open);
  topology.pairs.reserve(open.size() * open.size());
  for (size_t row = 0; row < open.size(); ++row) {
    for (size_t column = 0; column < open.size(); ++column) {
      topology.pairs.push_back(row == column ? GpuPair{} : read_pair(functions, open[row], open[column]));
    }
  }
  return topology;
}

}  // namespace plimsoll
