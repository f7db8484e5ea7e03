// Tests GpuGauge, which measures the memory of a run, with a simulated card.
#include "tests/truth/gpu_gauge.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace plimsoll::testing {
namespace {

void wait_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

TEST(GpuGauge, SeesTheMostThatWasHeldAndNotWhatOthersHold) {
  std::atomic<int64_t> used{500};
  GpuGauge gauge([&] { return used.load(); });
  for (const int64_t now : {700, 900, 800}) {
    used = now;
    wait_ms(50);
  }
  used = 500;
  const GpuHeld held = gauge.stop();
  EXPECT_EQ(held.before_bytes, 500);
  EXPECT_EQ(held.after_bytes, 500);
  EXPECT_EQ(held.most_bytes, 400);
  EXPECT_GT(held.num_readings, 2);
  EXPECT_GT(held.longest_gap_ms, 0.0);
}

// The driver frees memory of an ended process with a delay. The measurement must wait for that, so that this
// memory does not count as memory of other processes.
TEST(GpuGauge, WaitsUntilTheCardIsSteady) {
  std::atomic<int64_t> used{900};
  std::atomic<bool> falls{true};
  const auto fall = [&] {
    if (falls && used > 500) used = used - 100;
    return used.load();
  };
  GpuGauge gauge(fall);
  falls = false;
  used = 900;
  wait_ms(50);
  falls = true;
  const GpuHeld held = gauge.stop();
  EXPECT_EQ(held.before_bytes, 500);
  EXPECT_EQ(held.most_bytes, 400);
  EXPECT_EQ(held.after_bytes, 500);
}

TEST(GpuGauge, SaysWhyItCannotRead) {
  EXPECT_THROW(GpuGauge([]() -> int64_t { throw std::runtime_error("fell off the bus"); }),
               std::runtime_error);
  try {
    const GpuGauge gauge("GPU-00000000-0000-0000-0000-000000000000");
    ADD_FAILURE() << "a card of no machine was gauged";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("NVML does not say what the card GPU-0000"), std::string::npos)
        << error.what();
  }
  // If reading fails once, the measurement must continue.
  std::atomic<bool> fails{false};
  GpuGauge gauge([&]() -> int64_t {
    if (fails) throw std::runtime_error("busy");
    return 7;
  });
  fails = true;
  wait_ms(20);
  fails = false;
  EXPECT_EQ(gauge.stop().most_bytes, 0);
}

}  // namespace
}  // namespace plimsoll::testing
