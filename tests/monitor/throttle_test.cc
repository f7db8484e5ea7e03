// Figures and warnings during a run, and the words for what holds clocks back.
#include <gtest/gtest.h>

#include "show/monitor/gpu_log.h"
#include "show/monitor/throttle.h"
#include "tests/monitor/fake_driver.h"

namespace plimsoll::testing {
namespace {

constexpr const char* kUuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";

std::string names(uint64_t bits) {
  std::string text;
  for (const ClockEvent& event : clock_events({.clock_events = bits})) {
    EXPECT_TRUE(!event.is_throttling || !event.advice.empty()) << event.name << " comes without advice";
    text += event.name + (event.is_throttling ? "!" : "") + ";";
  }
  return text;
}

TEST(ClockEvents, EveryBitHasWords) {
  EXPECT_EQ(names(0), "");
  EXPECT_EQ(names(0x1), "idle;");
  EXPECT_EQ(names(0x2), "clocks set by hand;");
  EXPECT_EQ(names(0x4), "power cap!;");
  EXPECT_EQ(names(0x8), "hardware slowdown!;");
  EXPECT_EQ(names(0x10), "held to the clocks of its group;");
  EXPECT_EQ(names(0x20), "thermal slowdown by the driver!;");
  EXPECT_EQ(names(0x40), "thermal slowdown by the hardware!;");
  EXPECT_EQ(names(0x80), "power brake!;");
  EXPECT_EQ(names(0x100), "display clocks;");
  EXPECT_EQ(names(0x4000), "unknown event 0x4000;");
  EXPECT_EQ(names(0x4c), "thermal slowdown by the hardware!;power cap!;");
  EXPECT_TRUE(clock_events({}).empty());
}

TEST(GpuLog, FiguresOfTheRun) {
  const FakeMachine machine("one");
  const Nvml nvml(driver_library());
  MetricMap values{{"loss", 0.5}};
  GpuLog log(kUuid, "cuda:0", nvml);
  EXPECT_TRUE(log.add(values).empty());
  const MetricMap expected{
      {"loss", 0.5},           {"gpu_memory_used_mib", 10527}, {"gpu_utilization", 98},
      {"gpu_power_w", 698.25}, {"gpu_temperature_c", 64},      {"gpu_sm_clock_mhz", 1980}};
  EXPECT_EQ(values, expected);
}

TEST(GpuLog, WarnsOnceOfEachCause) {
  const Nvml nvml(driver_library());
  GpuLog log(kUuid, "cuda:0", nvml);
  MetricMap values;
  {
    const FakeMachine machine("throttling");
    const std::vector<std::string> warnings = log.add(values);
    ASSERT_EQ(warnings.size(), 2u);
    EXPECT_EQ(warnings[0],
              "cuda:0 slows down: thermal slowdown by the hardware; it is at 91 C; improve the cooling: air "
              "flow, room between cards, dust, fans, or lower the power limit");
    EXPECT_EQ(warnings[1],
              "cuda:0 slows down: power cap; it draws 698 of the 700 W that it may; raise the limit where "
              "card, supply and cooling allow it (nvidia-smi --power-limit)");
    EXPECT_TRUE(log.add(values).empty()) << "both were warned of";
  }
  const FakeMachine machine("braked");
  const std::vector<std::string> warnings = log.add(values);
  ASSERT_EQ(warnings.size(), 1u) << "a new cause";
  EXPECT_NE(warnings[0].find("power brake; the power supply asked for it"), std::string::npos) << warnings[0];
}

TEST(GpuLog, AddsNothingThatTheDriverDoesNotSay) {
  const FakeMachine machine("bare");
  const Nvml nvml(driver_library());
  MetricMap values;
  EXPECT_TRUE(GpuLog(kUuid, "cuda:0", nvml).add(values).empty());
  EXPECT_EQ(values, (MetricMap{{"gpu_memory_used_mib", 10527}}));
  values.clear();
  EXPECT_TRUE(GpuLog("GPU-unknown", "cuda:0", nvml).add(values).empty());
  const Nvml missing("/nowhere/libnvidia-ml.so.1");
  EXPECT_TRUE(GpuLog(kUuid, "cuda:0", missing).add(values).empty());
  EXPECT_TRUE(values.empty());
}

}  // namespace
}  // namespace plimsoll::testing
