// Tests the GPU measurements and warnings of a run, and the descriptions of the reasons for reduced GPU clocks.
#include <gtest/gtest.h>

#include "device/monitor/throttle.h"
#include "tests/monitor/fake_driver.h"

namespace plimsoll::testing {
namespace {

constexpr const char* kUuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";

std::string names(uint64_t bits) {
  std::string text;
  for (const ClockEvent& event : clock_events({.clocks = {.events = bits}})) {
    EXPECT_TRUE(!event.is_throttling || !event.advice.empty()) << event.name << " comes without advice";
    text += event.name + (event.is_throttling ? "!" : "") + ";";
  }
  return text;
}

TEST(ClockEvents, EveryBitHasWords) {
  EXPECT_EQ(names(0), "");
  EXPECT_EQ(names(0x1), "idle;");
  EXPECT_EQ(names(0x2), "clocks set by an administrator;");
  EXPECT_EQ(names(0x4), "power cap!;");
  EXPECT_EQ(names(0x8), "hardware slowdown!;");
  EXPECT_EQ(names(0x10), "limited to the clocks of the slowest GPU of its sync boost group;");
  EXPECT_EQ(names(0x20), "thermal slowdown by the driver!;");
  EXPECT_EQ(names(0x40), "thermal slowdown by the hardware!;");
  EXPECT_EQ(names(0x80), "power brake!;");
  EXPECT_EQ(names(0x100), "display clocks;");
  EXPECT_EQ(names(0x4000), "unknown event 0x4000;");
  EXPECT_EQ(names(0x4c), "thermal slowdown by the hardware!;power cap!;");
  EXPECT_TRUE(clock_events({}).empty());
}

// The driver may report reduced clocks while the average power of the last second is still far below the limit.
TEST(ClockEvents, ThePowerCapStatesWhatTheGpuDraws) {
  GpuSample sample;
  sample.clocks.events = 0x4;
  sample.power.limit_w = 700;
  const auto advice = [&](double watts) {
    sample.power.watts = watts;
    return clock_events(sample).at(0).advice;
  };
  EXPECT_TRUE(advice(698).starts_with("the GPU draws 698 of the 700 W that its limit allows; "))
      << advice(698);
  EXPECT_TRUE(
      advice(331).starts_with("at times the GPU draws the 700 W that its limit allows, on average 331 W; "))
      << advice(331);
}

TEST(GpuLog, FiguresOfTheRun) {
  const FakeMachine machine("one");
  const Nvml nvml(driver_library());
  LogRecord record{.step = 1, .epoch = 0, .values = {{"loss", 0.5}}};
  GpuLog log(kUuid, "cuda:0", nvml);
  EXPECT_TRUE(log.add(record).empty());
  const MetricMap expected{{"loss", 0.5},
                           {"gpu_memory_used_mib", 10527},
                           {"gpu_utilization", 98},
                           {"gpu_memory_utilization", 41},
                           {"gpu_sm_clock_mhz", 1980},
                           {"gpu_memory_clock_mhz", 3201},
                           {"gpu_power_w", 698.25},
                           {"gpu_power_limit_w", 700},
                           {"gpu_temperature_c", 64}};
  EXPECT_EQ(record.values, expected) << "a card without a fan says nothing of one";
  EXPECT_EQ(record.words, (WordMap{{"gpu_throttle", "none"}}));
}

// Uses the simulated desktop card, which has a fan and is idle.
TEST(GpuLog, TheFanOfACardThatHasOne) {
  const FakeMachine machine("several");
  const Nvml nvml(driver_library());
  LogRecord record;
  EXPECT_TRUE(GpuLog("GPU-ffeeddcc-bbaa-9988-7766-554433221100", "cuda:1", nvml).add(record).empty());
  EXPECT_EQ(record.values.at("gpu_fan"), 30);
  EXPECT_EQ(record.values.at("gpu_memory_clock_mhz"), 405);
  EXPECT_EQ(record.words, (WordMap{{"gpu_throttle", "idle"}}));
}

GpuSample sample_at(std::optional<int> celsius, std::optional<int> slowdown_c = {},
                    std::optional<int> slowdown_margin_c = {}) {
  return {.thermals = {.celsius = celsius, .slowdown_c = slowdown_c, .slowdown_margin_c = slowdown_margin_c}};
}

TEST(Verdict, OfATemperature) {
  EXPECT_EQ(temperature_verdict({}), Verdict::kUnknown);
  EXPECT_EQ(temperature_verdict(sample_at(40)), Verdict::kGood);
  EXPECT_EQ(temperature_verdict(sample_at(74)), Verdict::kGood);
  EXPECT_EQ(temperature_verdict(sample_at(75)), Verdict::kWarm);
  EXPECT_EQ(temperature_verdict(sample_at(80)), Verdict::kWarm);
  EXPECT_EQ(temperature_verdict(sample_at(81)), Verdict::kHigh);
  EXPECT_EQ(temperature_verdict(sample_at(70, 74)), Verdict::kHigh) << "a card that slows down early";
  EXPECT_EQ(temperature_verdict(sample_at(70, 75)), Verdict::kGood);
  EXPECT_EQ(temperature_verdict(sample_at(70, {}, 4)), Verdict::kHigh);
  EXPECT_EQ(describe_temperature_verdict({}), "");
  EXPECT_EQ(describe_temperature_verdict(sample_at(60)), "good (under 75 C)");
  EXPECT_EQ(describe_temperature_verdict(sample_at(78)), "warm (best under 75 C, at most 80 C)");
  EXPECT_NE(describe_temperature_verdict(sample_at(82)).find("improve the cooling"), std::string::npos);
}

TEST(Verdict, OfAPowerDraw) {
  const auto drawing = [](std::optional<double> watts, std::optional<double> limit_w) {
    return GpuSample{.power = {.watts = watts, .limit_w = limit_w}};
  };
  EXPECT_EQ(power_verdict({}), Verdict::kUnknown);
  EXPECT_EQ(power_verdict(drawing(300, {})), Verdict::kUnknown);
  EXPECT_EQ(power_verdict(drawing(300, 0)), Verdict::kUnknown);
  EXPECT_EQ(power_verdict(drawing(664, 700)), Verdict::kGood);
  EXPECT_EQ(power_verdict(drawing(665, 700)), Verdict::kHigh);
  EXPECT_EQ(describe_power_verdict(drawing(300, 700)), "");
  EXPECT_EQ(describe_power_verdict(drawing(665, 700)),
            "high (95 % of the limit): at its limit the GPU reduces its clocks");
}

TEST(GpuLog, WarnsOnceOfAHighTemperatureBeforeTheCardSlowsDown) {
  const Nvml nvml(driver_library());
  GpuLog log(kUuid, "cuda:0", nvml);
  LogRecord record;
  {
    const FakeMachine machine("hot");
    const std::vector<std::string> warnings = log.add(record);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0],
              "cuda:0 is at 83 C, which is high: cards slow down at 84 to 90 C; improve the cooling: air "
              "flow, room "
              "between cards, dust, fans, or lower the power limit");
    EXPECT_TRUE(log.add(record).empty()) << "there was a warning";
  }
  const FakeMachine machine("throttling");
  EXPECT_EQ(log.add(record).size(), 2u) << "that it is slower is new";
}

TEST(GpuLog, WarnsOnceOfEachCause) {
  const Nvml nvml(driver_library());
  GpuLog log(kUuid, "cuda:0", nvml);
  LogRecord record;
  {
    const FakeMachine machine("throttling");
    const std::vector<std::string> warnings = log.add(record);
    EXPECT_EQ(record.words, (WordMap{{"gpu_throttle", "thermal slowdown by the hardware, power cap"}}));
    ASSERT_EQ(warnings.size(), 2u);
    EXPECT_EQ(
        warnings[0],
        "cuda:0 slows down: thermal slowdown by the hardware; the GPU is at 91 C; improve the cooling: air "
        "flow, room between cards, dust, fans, or lower the power limit");
    EXPECT_EQ(warnings[1],
              "cuda:0 slows down: power cap; the GPU draws 698 of the 700 W that its limit allows; raise the "
              "limit if the GPU, the power supply and the cooling permit (nvidia-smi --power-limit)");
    EXPECT_TRUE(log.add(record).empty()) << "both were warned of";
  }
  const FakeMachine machine("braked");
  const std::vector<std::string> warnings = log.add(record);
  ASSERT_EQ(warnings.size(), 1u) << "a new cause";
  EXPECT_NE(warnings[0].find("power brake; the power supply requested it"), std::string::npos) << warnings[0];
}

TEST(GpuLog, AddsNothingThatTheDriverDoesNotSay) {
  const FakeMachine machine("bare");
  const Nvml nvml(driver_library());
  LogRecord record;
  EXPECT_TRUE(GpuLog(kUuid, "cuda:0", nvml).add(record).empty());
  EXPECT_EQ(record.values, (MetricMap{{"gpu_memory_used_mib", 10527}}));
  EXPECT_TRUE(record.words.empty());
  record = {};
  EXPECT_TRUE(GpuLog("GPU-unknown", "cuda:0", nvml).add(record).empty());
  const Nvml missing("/nowhere/libnvidia-ml.so.1");
  EXPECT_TRUE(GpuLog(kUuid, "cuda:0", missing).add(record).empty());
  EXPECT_TRUE(record.values.empty() && record.words.empty());
}

}  // namespace
}  // namespace plimsoll::testing
