// Tests what is reported about the links between GPUs, for the simulated machines of a fake driver and for
// made-up machines, whose complete output is stored in fixtures/.
#include "device/monitor/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/units.h"
#include "tests/monitor/fake_driver.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Compares the printed topology with a file in fixtures/. If they differ, the new text is written into the
// folder of temporary files, from where it can be inspected and copied.
void expect_screen(const std::string& name, const Topology& topology) {
  const std::string kept = std::string(PLIMSOLL_TOPOLOGY_SCREENS) + "/" + name;
  const std::string screen = topology_text(topology);
  if (file_text(kept) == screen) return;
  const std::string fresh = ::testing::TempDir() + "/" + name;
  std::ofstream(fresh, std::ios::binary) << screen;
  ADD_FAILURE() << "the screens differ; look at the change, then\n  cp " << fresh << " " << kept << "\n"
                << screen;
}

Topology topology_of(const char* machine) {
  const FakeMachine fake(machine);
  const Nvml nvml(driver_library());
  EXPECT_TRUE(nvml.is_open()) << nvml.why_not();
  return gpu_topology(nvml);
}

// Returns a machine with `num_gpus` equal GPUs, every two of which are connected in the same way.
Topology uniform_machine(int num_gpus, const TopologyGpu& gpu, const GpuPair& pair) {
  Topology topology{.driver = "580.65.06"};
  for (int i = 0; i < num_gpus; ++i) {
    topology.gpus.push_back(gpu);
    topology.gpus.back().index = i;
    for (int k = 0; k < num_gpus; ++k) topology.pairs.push_back(i == k ? GpuPair{} : pair);
  }
  return topology;
}

const TopologyGpu kH100{.name = "NVIDIA H100 80GB HBM3",
                        .sm = 90,
                        .cpus = {0, 1, 2, 3},
                        .nodes = {0},
                        .pcie = {.max_generation = 5, .width = 16}};

Topology two_socket_host() {
  Topology topology{.why_no_gpu = "the NVIDIA driver lists none"};
  topology.nodes = {
      {.index = 0, .cpus = {0, 1, 2, 3, 8, 9, 10, 11}, .memory_bytes = 64311 * kMiB, .distances = {10, 21}},
      {.index = 1,
       .cpus = {4, 5, 6, 7, 12, 13, 14, 15},
       .memory_bytes = 64488 * kMiB,
       .distances = {21, 10}}};
  for (int cpu = 0; cpu < 16; ++cpu) topology.usable_cpus.push_back(cpu);
  return topology;
}

TEST(TopologyScreens, EightGpusWithNvSwitches) {
  expect_screen("hgx.txt", topology_of("hgx"));
}
TEST(TopologyScreens, FourGpusWithBridgesInPairs) {
  expect_screen("bridges.txt", topology_of("bridges"));
}
TEST(TopologyScreens, TwoDesktopCardsOnTwoSockets) {
  expect_screen("sockets.txt", topology_of("sockets"));
}
TEST(TopologyScreens, OneGpu) {
  expect_screen("one.txt", topology_of("one"));
}
TEST(TopologyScreens, NoGpuAndTwoSockets) {
  expect_screen("no_gpu.txt", two_socket_host());
}

TEST(TopologyScreens, NoGpuAndNoNodes) {
  Topology topology = two_socket_host();
  topology.nodes.clear();
  topology.usable_cpus = {0, 1};
  expect_screen("no_nodes.txt", topology);
}

TEST(Topology, LinksToSwitchesConnectEveryPair) {
  for (const char* machine : {"hgx", "hgx_old"}) {
    const Topology topology = topology_of(machine);
    ASSERT_EQ(topology.gpus.size(), 8u) << machine;
    for (size_t row = 0; row < 8; ++row) {
      for (size_t column = 0; column < 8; ++column) {
        if (row == column) continue;
        EXPECT_EQ(link_label(topology, row, column), "NV18") << machine;
        EXPECT_TRUE(topology.pair(row, column).through_switch) << machine;
        EXPECT_EQ(pair_gb_per_s(topology, row, column), 450) << machine;
      }
    }
  }
}

TEST(Topology, DirectLinksConnectTheirTwoEndsAlone) {
  const Topology topology = topology_of("bridges");
  EXPECT_EQ(link_label(topology, 0, 1), "NV12");
  EXPECT_EQ(link_label(topology, 3, 2), "NV12");
  EXPECT_FALSE(topology.pair(0, 1).through_switch);
  EXPECT_EQ(link_label(topology, 0, 2), "SYS");
  EXPECT_EQ(topology.gpus[2].nodes, std::vector<int>{1});
  EXPECT_EQ(format_ranges(topology.gpus[2].cpus), "12-23,36-47");
}

TEST(Topology, ALostGpuDoesNotHideTheOthers) {
  const Topology topology = topology_of("lost");
  ASSERT_EQ(topology.gpus.size(), 2u);
  EXPECT_NE(topology.gpus[1].fault, "");
  EXPECT_EQ(link_label(topology, 0, 1), "N/A");
  EXPECT_NE(topology_text(topology).find("the GPU is lost"), std::string::npos);
}

TEST(Topology, LabelsOfPathsOverPciExpress) {
  const auto label = [](PciPath path) { return link_label(uniform_machine(2, kH100, {.path = path}), 0, 1); };
  EXPECT_EQ(label(PciPath::kOneBridge), "PIX");
  EXPECT_EQ(label(PciPath::kBridges), "PXB");
  EXPECT_EQ(label(PciPath::kHostBridge), "PHB");
  EXPECT_EQ(label(PciPath::kNode), "NODE");
  EXPECT_EQ(label(PciPath::kSystem), "SYS");
  EXPECT_EQ(label(PciPath::kUnknown), "N/A");
}

// Data sheets state the sum of both directions, such as 900 GB/s for an H100; the rates here are those of one
// direction.
TEST(Topology, RatesAreThoseOfTheDataSheets) {
  const auto rate = [](int sm, int links) {
    TopologyGpu gpu = kH100;
    gpu.sm = sm;
    return pair_gb_per_s(uniform_machine(2, gpu, {.num_nvlinks = links}), 0, 1).value_or(0);
  };
  EXPECT_EQ(rate(60, 4), 80);
  EXPECT_EQ(rate(70, 6), 150);
  EXPECT_EQ(rate(75, 2), 50);
  EXPECT_EQ(rate(80, 12), 300);
  EXPECT_EQ(rate(86, 4), 56.25);
  EXPECT_EQ(rate(90, 18), 450);
  EXPECT_EQ(rate(100, 18), 900);
  EXPECT_NEAR(*pcie_gb_per_s({.max_generation = 3, .width = 16}), 15.75, 0.01);
  EXPECT_NEAR(*pcie_gb_per_s({.max_generation = 4, .width = 16}), 31.5, 0.01);
  EXPECT_NEAR(*pcie_gb_per_s({.max_generation = 5, .width = 16}), 63.0, 0.02);
  EXPECT_NEAR(*pcie_gb_per_s({.max_generation = 6, .width = 16}), 121.0, 0.01);
  // An idle card switches its PCIe link to generation 1 to save power, so the rate must be computed from the
  // largest generation that it supports.
  EXPECT_NEAR(*pcie_gb_per_s({.generation = 1, .max_generation = 4, .width = 8, .max_width = 16}), 15.75,
              0.01);
  EXPECT_FALSE(pcie_gb_per_s({.max_generation = 9, .width = 16}));
  EXPECT_FALSE(pcie_gb_per_s({}));
}

TEST(Topology, UnknownCardsHaveTheRateThatTheDriverReports) {
  TopologyGpu gpu = kH100;
  gpu.sm = 130;
  EXPECT_FALSE(nvlink_gb_per_s(gpu) || nvlink_generation(gpu));
  gpu.nvlink_gb_per_s = 100;
  gpu.nvlink_version = 7;
  EXPECT_EQ(nvlink_gb_per_s(gpu), 100);
  EXPECT_EQ(nvlink_generation(gpu), 5);
  gpu.nvlink_version = 99;
  EXPECT_FALSE(nvlink_generation(gpu));
}

TEST(Topology, UnknownRatesAreNotInvented) {
  TopologyGpu gpu = kH100;
  gpu.pcie = {};
  const std::string text = topology_text(uniform_machine(2, gpu, {.path = PciPath::kHostBridge}));
  EXPECT_NE(text.find("the driver does not report its generation and width"), std::string::npos) << text;
  EXPECT_NE(text.find("is unknown; plimsoll bench --links"), std::string::npos) << text;
  EXPECT_NE(text.find("does not report if these GPUs can map"), std::string::npos) << text;
}

TEST(Topology, MoreGpusThanMapMemoryUseNccl) {
  const std::string text = topology_text(
      uniform_machine(16, kH100, {.num_nvlinks = 18, .through_switch = true, .maps_memory = true}));
  EXPECT_NE(text.find("all 120 pairs of GPUs"), std::string::npos) << text;
  EXPECT_NE(text.find("Mapped memory connects at most 8 GPUs"), std::string::npos) << text;
}

TEST(Topology, Ranges) {
  EXPECT_EQ(format_ranges({}), "");
  EXPECT_EQ(format_ranges({5}), "5");
  EXPECT_EQ(format_ranges({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(Topology, NumaNodesAreReadFromTheSystem) {
  const fs::path root = fs::path(::testing::TempDir()) / ("numa_" + std::to_string(getpid()));
  const auto put = [&](const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  put("node1/cpulist", "4-7,12-15\n");
  put("node1/distance", "21 10\n");
  put("node1/meminfo", "Node 1 MemTotal:       2048 kB\nNode 1 MemFree: 1 kB\n");
  put("node0/cpulist", "0-3,8-11\n");
  put("node0/distance", "10 21\n");
  put("node0/meminfo", "Node 0 MemTotal:       1024 kB\n");
  put("power/state", "no node\n");
  const std::vector<NumaNode> nodes = numa_nodes({.nodes = root.string()});
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(
      nodes[0],
      (NumaNode{
          .index = 0, .cpus = {0, 1, 2, 3, 8, 9, 10, 11}, .memory_bytes = 1 << 20, .distances = {10, 21}}));
  EXPECT_EQ(nodes[1].index, 1);
  EXPECT_EQ(nodes[1].memory_bytes, 2 << 20);
  EXPECT_EQ(nodes[1].distances, (std::vector{21, 10}));
  fs::remove_all(root);
  EXPECT_TRUE(numa_nodes({.nodes = root.string()}).empty());
}

}  // namespace
}  // namespace plimsoll::testing
