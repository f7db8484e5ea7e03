#include "show/report/quantities.h"

#include <gtest/gtest.h>

#include <limits>

#include "show/report/plan_table.h"

namespace plimsoll {
namespace {

ProgressFigures figures() {
  return {.step = 418,
          .max_steps = 1195,
          .loss = 1.042,
          .grad_norm = 3.1,
          .learning_rate = 3.2e-5,
          .tokens_per_s = 9412.4,
          .memory_bytes = int64_t{611} << 20,
          .elapsed_s = 72,
          .remaining_s = 134};
}

TEST(Progress, BarAndLine) {
  EXPECT_EQ(
      progress_bar(figures(), 100, Characters::kAscii),
      "step  418/1195  34 % ===>-------  loss 1.042  |g| 3.1  lr 3.2e-05  9,412 tok/s  611 MiB  1:12 < 2:14");
  EXPECT_EQ(progress_bar(figures(), 56), "step  418/1195  34 % ━━━╺──────  loss 1.042  1:12 < 2:14");
  EXPECT_EQ(progress_line(figures(), 56), "step  418/1195  34 %  loss 1.042  |g| 3.1  1:12 < 2:14");
  EXPECT_EQ(progress_line(figures()),
            "step  418/1195  34 %  loss 1.042  |g| 3.1  lr 3.2e-05  9,412 tok/s  611 MiB  1:12 < 2:14");
}

TEST(Progress, FitsAnyTerminal) {
  ProgressFigures extreme{.step = 1'000'000'000,
                          .max_steps = 0,
                          .loss = std::numeric_limits<double>::quiet_NaN(),
                          .grad_norm = std::numeric_limits<double>::infinity(),
                          .learning_rate = 0,
                          .tokens_per_s = 1e12,
                          .model_flops_utilization = 0.5,
                          .memory_bytes = int64_t{1} << 45,
                          .elapsed_s = 1e6,
                          .remaining_s = -1};
  for (const ProgressFigures& f : {figures(), extreme, ProgressFigures{}}) {
    for (size_t columns = 1; columns < 160; ++columns) {
      EXPECT_LE(display_width(progress_bar(f, columns)), columns);
      EXPECT_LE(display_width(progress_bar(f, columns, Characters::kAscii)), columns);
    }
    for (size_t columns = 1; columns < 160; ++columns) EXPECT_LE(progress_line(f, columns).size(), columns);
    EXPECT_EQ(progress_line(f).find('\n'), std::string::npos);
    EXPECT_EQ(progress_line(f).find('\r'), std::string::npos);
  }
}

// If the line is too narrow for all figures, elapsed and remaining time must be kept longest, because they are most
// important to a user who waits.
TEST(Progress, ShowsTheTimeLongest) {
  ProgressFigures long_run = figures();
  long_run.step = 50'000;
  long_run.max_steps = 112'500;
  long_run.model_flops_utilization = 0.41;
  long_run.elapsed_s = 36'000;
  long_run.remaining_s = 45'000;
  for (const ProgressFigures& f : {figures(), long_run}) {
    const std::string time = format_clock(f.elapsed_s) + " < " + format_clock(f.remaining_s);
    for (size_t columns = 60; columns <= 160; ++columns) {
      EXPECT_TRUE(progress_bar(f, columns).ends_with(time)) << columns;
      EXPECT_NE(progress_bar(f, columns).find("━"), std::string::npos) << columns;
      EXPECT_TRUE(progress_line(f, columns).ends_with(time)) << columns;
    }
    EXPECT_TRUE(progress_bar(f, 45).ends_with(time));
    EXPECT_EQ(progress_bar(f, 20).find(" < "), std::string::npos);
  }
}

TEST(Quantities, ReadAsPeopleWrite) {
  EXPECT_EQ(format_mib(0), "-");
  EXPECT_EQ(format_mib(1340575744), "1278.5");
  EXPECT_EQ(format_count(335143938), "335.1M");
  EXPECT_EQ(format_count(812), "812");
  EXPECT_EQ(format_grouped(1234567), "1,234,567");
  EXPECT_EQ(format_grouped(-123), "-123");
  EXPECT_EQ(format_grouped(-1234), "-1,234");
  EXPECT_EQ(format_clock(3723.9), "1:02:03");
  EXPECT_EQ(format_clock(-1), "?");
  EXPECT_EQ(short_number(0.17788), "0.178");
  EXPECT_EQ(short_number(4071.7), "4072");
  EXPECT_EQ(format_share(1, 400), "0.2 %");
  EXPECT_EQ(format_share(94, 100), "94 %");
  EXPECT_EQ(format_share(1, 0), "-");
  EXPECT_EQ(wrapped("one two three four", 9), "one two\n  three\n  four\n");
  EXPECT_EQ(wrapped("a-word-that-is-long b", 5), "a-word-that-is-long\n  b\n");
  EXPECT_EQ(wrapped("", 5), "\n");
  EXPECT_EQ(shortened("encoder.layer.0.output", 10), "..0.output");
  EXPECT_EQ(shortened("short", 10), "short");
  EXPECT_EQ(right_aligned("━", 3), "  ━");
  EXPECT_EQ(left_aligned("━", 3), "━  ");
}

TEST(MemoryOutcome, PredictedHeldMeasured) {
  const int64_t mib = 1 << 20;
  MemoryFigures memory{.predicted_total_bytes = 611 * mib,
                       .arena_bytes = 560 * mib,
                       .arena_high_water_bytes = 560 * mib,
                       .lower_bound_bytes = 559 * mib,
                       .constant_bytes = 51 * mib,
                       .measured_peak_bytes = 600 * mib};
  EXPECT_EQ(memory_outcome_table(memory),
            "memory, MiB                     predicted        held    measured\n"
            "  arena                             560.0       560.0       560.0\n"
            "  device constant                    51.0           -        40.0\n"
            "  total                             611.0           -       600.0\n"
            "the peak of the process is 98.2 % of the prediction\n");
  memory.measured_peak_bytes = 612 * mib;
  EXPECT_NE(memory_outcome_table(memory).find("1.0 MiB more than predicted: this is a bug"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll
