// Tests the measurements of a GPU that a fake driver reports, printed as a table, as lines and as JSON.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "device/monitor/monitor_sample.h"
#include "tests/monitor/fake_driver.h"

namespace plimsoll::testing {
namespace {

constexpr const char* kUuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";

HostSample host() {
  return {.cpu = "Some CPU",
          .num_threads = 2,
          .isa = "AVX2",
          .load = 0.5,
          .memory = {.total_bytes = 8192 * kMiB, .available_bytes = 4096 * kMiB}};
}

// Returns the measurements of the simulated machine with this name.
MonitorSample sample_of(const char* name) {
  const FakeMachine machine(name);
  const Nvml nvml(driver_library());
  EXPECT_TRUE(nvml.is_open()) << nvml.why_not();
  return {.time = "2026-11-21T09:12:01Z",
          .driver = nvml.driver_version(),
          .cuda_version = nvml.cuda_version(),
          .gpus = nvml.all(),
          .host = host()};
}

std::string why_not(const std::string& library, const char* machine = "one") {
  const FakeMachine fake(machine);
  const Nvml nvml(library);
  EXPECT_FALSE(nvml.is_open());
  // If NVML cannot be loaded, its functions return empty results instead of failing.
  EXPECT_TRUE(nvml.all().empty());
  EXPECT_TRUE(nvml.processes(kUuid).empty());
  EXPECT_FALSE(nvml.memory(kUuid) || nvml.load(kUuid) || nvml.cuda_version());
  EXPECT_EQ(nvml.driver_version(), "");
  return nvml.why_not();
}

TEST(MonitorDriver, WhyItCannotBeOpened) {
  EXPECT_EQ(why_not("/nowhere/libnvidia-ml.so.1"),
            "this machine has no NVIDIA driver (/nowhere/libnvidia-ml.so.1 is missing)");
  EXPECT_EQ(why_not(driver_library("old_driver")),
            "the NVIDIA driver is too old: its management library (NVML) lacks functions that drivers have "
            "since 2021");
  EXPECT_EQ(why_not(driver_library(), "not_loaded"),
            "NVIDIA's management library (NVML) does not start: the NVIDIA driver is not loaded");
  EXPECT_EQ(
      why_not(driver_library(), "mismatch"),
      "NVIDIA's management library (NVML) does not start: the driver's library and its kernel module are of "
      "different versions; restart the machine");
}

TEST(MonitorDriver, MemoryAndProcessesByUuid) {
  const FakeMachine machine("one");
  const Nvml nvml(driver_library());
  const auto memory = nvml.memory(kUuid);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->used_bytes, 10527 * kMiB);
  EXPECT_EQ(memory->used_bytes + memory->free_bytes + memory->reserved_bytes, memory->total_bytes);
  EXPECT_FALSE(nvml.memory("GPU-unknown"));
  const auto processes = nvml.processes(kUuid);
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[0].pid, 4200000);
  EXPECT_EQ(processes[0].used_bytes, 10000 * kMiB);
  EXPECT_EQ(processes[1].used_bytes, 0) << "the driver does not say";
}

TEST(MonitorDriver, EveryProcessIsListed) {
  const MonitorSample sample = sample_of("crowded");
  ASSERT_EQ(sample.gpus.size(), 1u);
  EXPECT_EQ(sample.gpus[0].processes.size(), 200u);
}

TEST(MonitorTable, OneGpu) {
  EXPECT_EQ(monitor_table(sample_of("one")),
            R"(driver 580.65.06, CUDA up to 13.0, 1 GPU

GPU 0  NVIDIA H200  GPU-00112233  compute capability 9.0
  memory        10527 MiB used, 132644 free, of 143771; 600 more reserved by the driver
  utilisation   GPU 98 %, memory 41 %
  clocks        SM 1980 of 1980 MHz, memory 3201 of 3201 MHz
  power         698 of 700 W, high (100 % of the limit): at its limit the GPU reduces its clocks
  temperature   64 C, good (under 75 C), slows down after 23 C more
  throttle      none: nothing reduces the clocks
  ECC errors    none since the driver was loaded
  PCIe          generation 5 x16, at most 5 x16
  NVLink        16 of 18 links up
  processes          pid       MiB  name
                 4200000     10000  (of another container)
                 4200001         -  (of another container)
                527 MiB are used by processes that the driver does not name
)");
}

TEST(MonitorTable, SeveralGpusAndTheirSum) {
  const std::string table = monitor_table(sample_of("several"));
  EXPECT_TRUE(table.starts_with("driver 580.65.06, CUDA up to 13.0, 2 GPUs\n")) << table;
  EXPECT_EQ(table.substr(table.find("\nGPU 1")),
            R"(
GPU 1  NVIDIA GeForce RTX 3090  GPU-ffeeddcc  compute capability 8.6
  memory        1200 MiB used, 23000 free, of 24576; 376 more reserved by the driver
  utilisation   GPU 4 %, memory 2 %
  clocks        SM 210 of 2100 MHz, memory 405 of 9751 MHz
  power         31 of 350 W
  temperature   38 C, good (under 75 C), slows down at 95 C
  fan           30 %
  throttle      idle
  PCIe          generation 1 x16, at most 4 x16
  processes          pid       MiB  name
                 4199999      1200  (of another container)

all 2 GPUs
  memory        11727 MiB used, 155644 free, of 168347; 976 more reserved by the driver
  utilisation   GPU 51 % on average
  power         730 W
)");
}

TEST(MonitorTable, ThrottlingNamesCauseAndAdvice) {
  const std::string table = monitor_table(sample_of("throttling"));
  EXPECT_NE(
      table.find(
          "  throttle      thermal slowdown by the hardware: the GPU is at 91 C; improve the cooling: "),
      std::string::npos)
      << table;
  EXPECT_NE(table.find("  throttle      power cap: the GPU draws 698 of the 700 W that its limit allows; "
                       "raise the limit "),
            std::string::npos)
      << table;
  EXPECT_NE(
      table.find("  ECC errors    5 corrected, 1 not, since the driver was loaded: results may be wrong"),
      std::string::npos)
      << table;
  EXPECT_EQ(table.find("hardware slowdown"), std::string::npos) << "it has a cause of its own";
}

TEST(MonitorTable, FiguresThatNeedRightsAreNamed) {
  const std::string table = monitor_table(sample_of("denied"));
  EXPECT_NE(table.find("  not shown     power (no permission), processes (no permission)\n"),
            std::string::npos)
      << table;
  EXPECT_EQ(table.find("\n  power "), std::string::npos) << table;
  EXPECT_NE(table.find("  utilisation   GPU 98 %"), std::string::npos) << table;
}

TEST(MonitorTable, WhatACardDoesNotSayHasNoRow) {
  EXPECT_EQ(monitor_table(sample_of("bare")),
            R"(driver 580.65.06, CUDA up to 13.0, 1 GPU

GPU 0  NVIDIA H200  GPU-00112233
  memory        10527 MiB used, 132644 free, of 143771; 600 more reserved by the driver
  processes     the driver lists none
                10527 MiB are used by processes that the driver does not name
)");
}

TEST(MonitorTable, ALostGpuIsNamedAndTheOthersAreShown) {
  const std::string table = monitor_table(sample_of("lost"));
  EXPECT_NE(table.find("\nGPU 1\n  fault         the GPU is lost: it fell off the bus; restart the machine"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("\nGPU 0  NVIDIA H200"), std::string::npos) << table;
}

TEST(MonitorTable, WithoutAGpuTheHostIsShown) {
  MonitorSample sample = sample_of("none");
  ASSERT_TRUE(sample.gpus.empty());
  sample.why_no_gpu = "the NVIDIA driver lists none";
  EXPECT_EQ(monitor_table(sample),
            R"(No GPU to show: the NVIDIA driver lists none; the figures are those of the host.

host
  CPU           Some CPU, AVX2
  threads       2
  load          0.50 runnable threads on average over one minute
  memory        4096 MiB available, of 8192
)");
  EXPECT_EQ(monitor_lines(sample), "2026-11-21T09:12:01Z  host  load 0.50  4096 of 8192 MiB available\n");
}

TEST(MonitorTable, ContextsAndCapabilities) {
  MonitorSample sample = sample_of("several");
  sample.with_capabilities = true;
  sample.contexts = {{.index = 0, .before_bytes = 100 * kMiB, .after_bytes = 627 * kMiB},
                     {.index = 1, .why_not = "no CUDA"}};
  const std::string table = monitor_table(sample);
  EXPECT_NE(table.find("  context       527 MiB for an empty context: 100 MiB of the GPU were used before "
                       "its creation, 627 after\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("  context       not measured: no CUDA\n"), std::string::npos) << table;
  EXPECT_NE(
      table.find(
          "  fp8           no   tensor cores multiply this format from compute capability 8.9 on, and this "
          "GPU has 8.6\n"),
      std::string::npos)
      << table;
  EXPECT_NE(table.find("  fp8           yes  "), std::string::npos) << table;
}

TEST(MonitorTable, LinesForALog) {
  EXPECT_EQ(monitor_lines(sample_of("throttling")),
            "2026-11-21T09:12:01Z  GPU 0  10527 of 143771 MiB  98 %  1410 MHz  698 W  91 C  thermal slowdown "
            "by the hardware, power cap\n");
  EXPECT_EQ(monitor_lines(sample_of("bare")), "2026-11-21T09:12:01Z  GPU 0  10527 of 143771 MiB\n");
}

TEST(MonitorJson, OneGpu) {
  EXPECT_EQ(
      monitor_json(sample_of("one")),
      R"({"time":"2026-11-21T09:12:01Z","driver":"580.65.06","cuda":"13.0","why_no_gpu":null,"gpus":[{"index":0,)"
      R"("name":"NVIDIA H200","uuid":"GPU-00112233-4455-6677-8899-aabbccddeeff","compute_capability":"9.0",)"
      R"("fault":null,"memory_used_mib":10527,"memory_free_mib":132644,"memory_total_mib":143771,)"
      R"("memory_reserved_mib":600,"utilization_gpu_percent":98,"utilization_memory_percent":41,)"
      R"("clock_sm_mhz":1980,"clock_sm_max_mhz":1980,"clock_memory_mhz":3201,"clock_memory_max_mhz":3201,)"
      R"("power_w":698.25,"power_limit_w":700.0,"power_verdict":"high","temperature_c":64,)"
      R"("temperature_verdict":"good","temperature_slowdown_c":null,)"
      R"("temperature_margin_c":23,"fan_percent":null,"throttle":[],"ecc_corrected":0,"ecc_uncorrected":0,)"
      R"("pcie_generation":5,"pcie_generation_max":5,"pcie_width":16,"pcie_width_max":16,"nvlinks_up":16,)"
      R"("nvlinks":18,"processes":[{"pid":4200000,"name":null,"memory_used_mib":10000},)"
      R"({"pid":4200001,"name":null,"memory_used_mib":null}],"refused":[]}],)"
      R"("host":{"cpu":"Some CPU","isa":"AVX2","threads":2,"load":0.5,"memory_available_mib":4096,)"
      R"("memory_total_mib":8192,"cgroup_limit_mib":null}})");
}

TEST(MonitorJson, SeveralGpusHaveASum) {
  const auto json = nlohmann::json::parse(monitor_json(sample_of("several")));
  ASSERT_EQ(json["gpus"].size(), 2u);
  EXPECT_EQ(json["sum"]["memory_used_mib"], 11727);
  EXPECT_EQ(json["sum"]["utilization_gpu_percent"], 51.0);
  EXPECT_EQ(json["gpus"][1]["throttle"][0]["reason"], "idle");
  EXPECT_EQ(json["gpus"][1]["throttle"][0]["throttles"], false);
}

TEST(MonitorJson, WhatIsNotSaidIsNull) {
  const auto denied = nlohmann::json::parse(monitor_json(sample_of("denied")))["gpus"][0];
  EXPECT_TRUE(denied["processes"].is_null());
  EXPECT_TRUE(denied["power_w"].is_null());
  EXPECT_EQ(denied["refused"].size(), 2u);
  const auto lost = nlohmann::json::parse(monitor_json(sample_of("lost")))["gpus"][1];
  EXPECT_TRUE(lost["memory_used_mib"].is_null());
  EXPECT_TRUE(lost["fault"].get<std::string>().starts_with("the GPU is lost"));
}

TEST(MonitorCapabilities, OfACpuByItsInstructionSets) {
  const auto yes = [](CpuIsa isa, bool multiplies_fp16) {
    std::string formats;
    for (const Capability& capability : cpu_capabilities(isa, multiplies_fp16)) {
      EXPECT_FALSE(capability.why.empty());
      if (capability.is_there) formats += capability.format + " ";
    }
    return formats;
  };
  EXPECT_EQ(yes(CpuIsa::kBaseline, false), "fp32 ");
  EXPECT_EQ(yes(CpuIsa::kAvx2, false), "fp32 ");
  EXPECT_EQ(yes(CpuIsa::kAvx512, false), "fp32 ");
  EXPECT_EQ(yes(CpuIsa::kAvx512Bf16, false), "fp32 bf16 ");
  EXPECT_EQ(yes(CpuIsa::kAmx, false), "fp32 bf16 ");
  EXPECT_EQ(yes(CpuIsa::kAmx, true), "fp32 bf16 fp16 ");
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAmx}) {
    const std::string why = cpu_capabilities(isa, true)[2].why;
    EXPECT_NE(why.find("Plimsoll does not compute fp16 on a CPU"), std::string::npos) << why;
    EXPECT_EQ(why.find("use --bf16") != std::string::npos, has_bf16_products(isa)) << why;
  }
}

TEST(MonitorTable, CapabilitiesOfTheHost) {
  MonitorSample sample = sample_of("none");
  EXPECT_EQ(monitor_table(sample).find("  bf16 "), std::string::npos) << "they were not asked for";
  sample.with_capabilities = true;
  sample.host.capabilities = cpu_capabilities(CpuIsa::kAvx2, false);
  const std::string table = monitor_table(sample);
  EXPECT_NE(table.find("\nhost\n"), std::string::npos) << table;
  EXPECT_NE(table.find("  bf16          no   this CPU has neither AVX512_BF16 nor AMX, "), std::string::npos)
      << table;
  const auto json = nlohmann::json::parse(monitor_json(sample));
  EXPECT_EQ(json["host"]["capabilities"]["fp32"]["yes"], true);
  EXPECT_EQ(json["host"]["capabilities"]["fp16"]["yes"], false);
}

TEST(MonitorCapabilities, ByComputeCapability) {
  const auto yes = [](int sm) {
    std::string formats;
    for (const Capability& capability : gpu_capabilities(sm)) {
      EXPECT_FALSE(capability.why.empty());
      if (capability.is_there) formats += capability.format + " ";
    }
    return formats;
  };
  EXPECT_EQ(yes(61), "");
  EXPECT_EQ(yes(70), "fp16 ");
  EXPECT_EQ(yes(75), "fp16 ");
  EXPECT_EQ(yes(80), "fp16 bf16 tf32 ");
  EXPECT_EQ(yes(86), "fp16 bf16 tf32 ");
  EXPECT_EQ(yes(89), "fp16 bf16 tf32 fp8 ");
  EXPECT_EQ(yes(120), "fp16 bf16 tf32 fp8 ");
}

}  // namespace
}  // namespace plimsoll::testing
