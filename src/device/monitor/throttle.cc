#include "device/monitor/throttle.h"

#include <fmt/format.h>

#include <optional>

namespace plimsoll {
namespace {

// The bits of the reasons for reduced clocks, as NVML documents them under "clocks event reasons".
constexpr uint64_t kIdle = 0x1;
constexpr uint64_t kApplicationClocks = 0x2;
constexpr uint64_t kPowerCap = 0x4;
constexpr uint64_t kHardwareSlowdown = 0x8;
constexpr uint64_t kSyncBoost = 0x10;
constexpr uint64_t kSoftwareThermal = 0x20;
constexpr uint64_t kHardwareThermal = 0x40;
constexpr uint64_t kPowerBrake = 0x80;
constexpr uint64_t kDisplayClocks = 0x100;
constexpr uint64_t kKnown = 0x1ff;

constexpr int kGoodCelsius = 75;
constexpr int kHighCelsius = 80;
constexpr int kLeastMarginC = 5;
constexpr double kHighPowerShare = 0.95;

constexpr const char* kCoolingAdvice =
    "improve the cooling: air flow, room between cards, dust, fans, or lower the power limit";

// Returns true if the GPU draws almost as much power as its limit allows, on average over the last second.
bool is_at_power_limit(const GpuPower& power) {
  return power.watts && power.limit_w && *power.watts >= kHighPowerShare * *power.limit_w;
}

std::string power_advice(const GpuSample& sample) {
  const GpuPower& power = sample.power;
  std::string draw;
  if (is_at_power_limit(power)) {
    draw = fmt::format("the GPU draws {:.0f} of the {:.0f} W that its limit allows; ", *power.watts,
                       *power.limit_w);
  } else if (power.watts && power.limit_w) {
    // The driver reports the power draw as an average over the last second, but the reason for reduced clocks is that of this moment. The
    // average can therefore be below the limit.
    draw = fmt::format("at times the GPU draws the {:.0f} W that its limit allows, on average {:.0f} W; ",
                       *power.limit_w, *power.watts);
  }
  return draw +
         "raise the limit if the GPU, the power supply and the cooling permit (nvidia-smi --power-limit)";
}

std::string cooling_advice(const GpuSample& sample) {
  const std::string heat =
      sample.thermals.celsius ? fmt::format("the GPU is at {} C; ", *sample.thermals.celsius) : std::string();
  return heat + kCoolingAdvice;
}

constexpr const char* kSupplyAdvice =
    "the power supply requested it: check that the supply is strong enough and that each power connector of "
    "the GPU has its own cable";

}  // namespace

std::vector<ClockEvent> clock_events(const GpuSample& sample) {
  const uint64_t bits = sample.clocks.events.value_or(0);
  std::vector<ClockEvent> events;
  const auto add = [&](uint64_t bit, const char* name, const std::string& advice, bool is_throttling) {
    if ((bits & bit) != 0)
      events.push_back({.bit = bit, .name = name, .advice = advice, .is_throttling = is_throttling});
  };
  if ((bits & (kHardwareThermal | kPowerBrake)) == 0) {
    add(kHardwareSlowdown, "hardware slowdown",
        "too hot, or too much power drawn at once: check the cooling, the power supply and its cables", true);
  }
  add(kHardwareThermal, "thermal slowdown by the hardware", cooling_advice(sample), true);
  add(kPowerBrake, "power brake", kSupplyAdvice, true);
  add(kSoftwareThermal, "thermal slowdown by the driver", cooling_advice(sample), true);
  add(kPowerCap, "power cap", power_advice(sample), true);
  add(kSyncBoost, "limited to the clocks of the slowest GPU of its sync boost group", "", false);
  add(kApplicationClocks, "clocks set by an administrator",
      "nvidia-smi --reset-applications-clocks restores the default clocks", false);
  add(kDisplayClocks, "display clocks", "", false);
  add(kIdle, "idle", "", false);
  if ((bits & ~kKnown) != 0) {
    events.push_back({.bit = bits & ~kKnown, .name = fmt::format("unknown event {:#x}", bits & ~kKnown)});
  }
  return events;
}

std::string clock_event_names(const GpuSample& sample) {
  std::string names;
  for (const ClockEvent& event : clock_events(sample)) names += (names.empty() ? "" : ", ") + event.name;
  return names;
}

Verdict temperature_verdict(const GpuSample& sample) {
  const GpuThermals& thermals = sample.thermals;
  if (!thermals.celsius) return Verdict::kUnknown;
  std::optional<int> margin_c = thermals.slowdown_margin_c;
  if (!margin_c && thermals.slowdown_c) margin_c = *thermals.slowdown_c - *thermals.celsius;
  if (*thermals.celsius > kHighCelsius || (margin_c && *margin_c < kLeastMarginC)) return Verdict::kHigh;
  return *thermals.celsius < kGoodCelsius ? Verdict::kGood : Verdict::kWarm;
}

Verdict power_verdict(const GpuSample& sample) {
  const GpuPower& power = sample.power;
  if (!power.watts || !power.limit_w || *power.limit_w <= 0) return Verdict::kUnknown;
  return is_at_power_limit(power) ? Verdict::kHigh : Verdict::kGood;
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kUnknown:
      return "";
    case Verdict::kGood:
      return "good";
    case Verdict::kWarm:
      return "warm";
    case Verdict::kHigh:
      return "high";
  }
  return "";
}

std::string describe_temperature_verdict(const GpuSample& sample) {
  switch (temperature_verdict(sample)) {
    case Verdict::kUnknown:
      return "";
    case Verdict::kGood:
      return fmt::format("good (under {} C)", kGoodCelsius);
    case Verdict::kWarm:
      return fmt::format("warm (best under {} C, at most {} C)", kGoodCelsius, kHighCelsius);
    case Verdict::kHigh:
      return std::string("high: cards slow down at 84 to 90 C; ") + kCoolingAdvice;
  }
  return "";
}

std::string describe_power_verdict(const GpuSample& sample) {
  if (power_verdict(sample) != Verdict::kHigh) return "";
  return fmt::format("high ({:.0f} % of the limit): at its limit the GPU reduces its clocks",
                     100.0 * *sample.power.watts / *sample.power.limit_w);
}

std::string throttle_warning(const std::string& gpu, const ClockEvent& event) {
  return fmt::format("{} slows down: {}; {}", gpu, event.name, event.advice);
}

}  // namespace plimsoll
