#include "optim/rate_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "optim/metric_schedule.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

struct ScheduleCase {
  std::string name;
  std::vector<ScheduleOption> options;
  double learning_rate;
  int64_t num_warmup_steps, num_training_steps;
  std::vector<double> multipliers;
};
#include "optim/fixtures/schedule_values.inc"

struct MetricScheduleCase {
  std::string name;
  std::vector<ScheduleOption> options;
  double learning_rate;
  std::vector<double> metrics, learning_rates;
};
#include "optim/fixtures/metric_schedule_values.inc"

// Returns the message of the usage error that the call throws, or an empty text.
template <typename Call>
std::string usage_error(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return {};
}

TEST(Schedule, MatchesTransformersAtEveryStep) {
  std::set<std::string> kinds;
  for (const ScheduleCase& c : kScheduleCases) {
    const Schedule schedule = make_schedule(parse_schedule(c.name), c.learning_rate, c.num_warmup_steps,
                                            c.num_training_steps, c.options);
    ASSERT_EQ(static_cast<int64_t>(c.multipliers.size()), c.num_training_steps + 1);
    for (int64_t step = 0; step <= c.num_training_steps; ++step) {
      // Plimsoll and transformers do the same operations in double precision in the same order. Only the last bit of a cosine may differ.
      EXPECT_NEAR(schedule_multiplier(schedule, step), c.multipliers[static_cast<size_t>(step)], 1e-15)
          << c.name << " warm-up " << c.num_warmup_steps << " of " << c.num_training_steps << " step "
          << step;
    }
    kinds.insert(c.name);
  }
  for (const ScheduleKind kind : all_schedules()) {
    EXPECT_EQ(kinds.contains(std::string(schedule_name(kind))), !follows_metric(kind)) << schedule_name(kind);
  }
}

TEST(Schedule, KeepsItsLastValueBeyondTheEnd) {
  for (const ScheduleCase& c : kScheduleCases) {
    if (c.name == "inverse_sqrt") continue;  // the multiplier of inverse_sqrt decreases forever
    if (c.name == "constant_with_warmup" && c.num_warmup_steps > c.num_training_steps) continue;
    const Schedule schedule = make_schedule(parse_schedule(c.name), c.learning_rate, c.num_warmup_steps,
                                            c.num_training_steps, c.options);
    const double last = schedule_multiplier(schedule, c.num_training_steps);
    for (const int64_t beyond : {1, 7, 1000}) {
      EXPECT_EQ(schedule_multiplier(schedule, c.num_training_steps + beyond), last) << c.name;
    }
  }
}

TEST(Schedule, PolynomialWithoutADecayEndsAtItsEnd) {
  const Schedule schedule = make_schedule(ScheduleKind::kPolynomial, 1e-4, 5, 5);
  EXPECT_EQ(schedule_multiplier(schedule, 4), 0.8);
  EXPECT_EQ(schedule_multiplier(schedule, 5), 1e-7 / 1e-4);
}

TEST(Schedule, NamesRoundTripAndUnknownOnesAreListed) {
  ASSERT_EQ(all_schedules().size(), 12u);
  for (const ScheduleKind kind : all_schedules()) EXPECT_EQ(parse_schedule(schedule_name(kind)), kind);
  const std::string message = usage_error([] { parse_schedule("linaer"); });
  EXPECT_NE(message.find("'linaer'"), std::string::npos) << message;
  EXPECT_NE(message.find("linear, cosine, cosine_with_restarts, polynomial"), std::string::npos) << message;
}

TEST(Schedule, RefusesOptionsThatItDoesNotHave) {
  const auto make = [](ScheduleKind kind, std::vector<ScheduleOption> options) {
    return usage_error([&] { make_schedule(kind, 1e-4, 0, 10, options); });
  };
  std::string message = make(ScheduleKind::kPolynomial, {{"num_cycles", 2.0}});
  EXPECT_NE(message.find("no option 'num_cycles'; it has: lr_end, power"), std::string::npos) << message;
  message = make(ScheduleKind::kLinear, {{"power", 2.0}});
  EXPECT_NE(message.find("it has: none"), std::string::npos) << message;
  message = make(ScheduleKind::kCosine, {{"num_cycles", "two"}});
  EXPECT_NE(message.find("is 'two'; it must be a number"), std::string::npos) << message;
  message = make(ScheduleKind::kInverseSqrt, {{"timescale", 2.5}});
  EXPECT_NE(message.find("whole number of at least 1"), std::string::npos) << message;
  message = make(ScheduleKind::kWarmupStableDecay, {{"num_decay_steps", 2.0}, {"decay_type", "steep"}});
  EXPECT_NE(message.find("'steep'; choose one of: linear, cosine, 1-sqrt"), std::string::npos) << message;
  // constant and constant_with_warmup accept any option and use none, as in transformers.
  EXPECT_EQ(make(ScheduleKind::kConstant, {{"power", 2.0}}), "");
  EXPECT_EQ(make(ScheduleKind::kConstantWithWarmup, {{"power", 2.0}}), "");
}

TEST(Schedule, SaysWhichOptionIsMissingOrImpossible) {
  std::string message = usage_error([] { make_schedule(ScheduleKind::kWarmupStableDecay, 1e-4, 0, 50); });
  EXPECT_NE(message.find("needs num_decay_steps, such as {\"num_decay_steps\": 5}"), std::string::npos)
      << message;
  message = usage_error([] { make_schedule(ScheduleKind::kCosineWithMinLr, 1e-4, 0, 50); });
  EXPECT_NE(message.find("one of min_lr and min_lr_rate, but none is given"), std::string::npos) << message;
  const std::vector<ScheduleOption> both = {{"min_lr", 1e-5}, {"min_lr_rate", 0.1}};
  message = usage_error([&] { make_schedule(ScheduleKind::kCosineWithMinLr, 1e-4, 0, 50, both); });
  EXPECT_NE(message.find("both are given"), std::string::npos) << message;
  message = usage_error([] { make_schedule(ScheduleKind::kPolynomial, 1e-8, 0, 50); });
  EXPECT_NE(message.find("lr_end 1e-07 must be below learning_rate 1e-08"), std::string::npos) << message;
  message = usage_error([] { make_schedule(ScheduleKind::kLinear, 1e-4, 0, 0); });
  EXPECT_NE(message.find("at least one step of training"), std::string::npos) << message;
}

TEST(MetricSchedule, MatchesTorchAndTransformersAfterEveryEvaluation) {
  std::set<std::string> kinds;
  for (const MetricScheduleCase& c : kMetricScheduleCases) {
    const MetricScheduleOptions options = make_metric_schedule(parse_schedule(c.name), c.options);
    MetricScheduleState state = start_metric_schedule(options, c.learning_rate);
    ASSERT_EQ(c.metrics.size(), c.learning_rates.size());
    bool changed = false;
    for (size_t i = 0; i < c.metrics.size(); ++i) {
      follow_metric(options, state, c.metrics[i]);
      EXPECT_DOUBLE_EQ(state.learning_rate, c.learning_rates[i]) << c.name << " evaluation " << i;
      changed = changed || state.learning_rate != c.learning_rate;
      // A state that is saved and loaded after each evaluation must give the same learning rates.
      state = state_from_values(options, state_values(state));
    }
    EXPECT_TRUE(changed) << c.name << ": the case shows nothing";
    kinds.insert(c.name);
  }
  EXPECT_EQ(kinds.size(), 2u);
}

TEST(MetricSchedule, RefusesImpossibleOptionsAndDamagedStates) {
  const std::vector<ScheduleOption> factor = {{"factor", 1.5}};
  std::string message = usage_error([&] { make_metric_schedule(ScheduleKind::kReduceLrOnPlateau, factor); });
  EXPECT_NE(message.find("factor of schedule 'reduce_lr_on_plateau' is 1.5"), std::string::npos) << message;
  const std::vector<ScheduleOption> greedy_only = {{"max_lr", 0.5}};
  message = usage_error([&] { make_metric_schedule(ScheduleKind::kReduceLrOnPlateau, greedy_only); });
  EXPECT_NE(message.find("no option 'max_lr'"), std::string::npos) << message;

  const MetricScheduleOptions options = make_metric_schedule(ScheduleKind::kReduceLrOnPlateau);
  std::map<std::string, double> values = state_values(start_metric_schedule(options, 1e-3));
  EXPECT_FALSE(values.contains("best"));
  values.erase("num_bad");
  try {
    state_from_values(options, values);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadData);
    EXPECT_NE(std::string(error.what()).find("has no 'num_bad'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
