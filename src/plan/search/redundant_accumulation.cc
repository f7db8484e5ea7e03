#include "plan/search/suggest.h"

#include <fmt/format.h>

#include "base/units.h"
#include "plan/search/change.h"

namespace plimsoll {
namespace {

constexpr int kMostPlans = 4;
constexpr double kWorthSaying = 1.03;

}  // namespace

std::string redundant_accumulation(const Plan& plan, const RunSpec& run, std::optional<int64_t> free_bytes) {
  const PlanRequest& request = plan.request;
  const int64_t accumulation = request.batches.accumulation_steps;
  const std::optional<int64_t> limit = request.memory_limit_bytes ? request.memory_limit_bytes : free_bytes;
  // A pipeline is not advised to accumulate less, because it needs several micro-batches to keep its stages busy.
  if (!plan.trains() || accumulation == 1 || !limit || request.ranks.pipeline_size > 1) return {};
  const int64_t micro = request.batches.train.sequences;
  int plans = 0;
  // Tries the smallest numbers of micro-batches first.
  for (int64_t steps = 1; steps < accumulation && plans < kMostPlans; ++steps) {
    if (accumulation % steps != 0) continue;
    // The larger batch is planned with sequences of the full length, because the lengths of its sequences are not known.
    RunSpec all_longest = run;
    all_longest.facts.lengths = SequenceLengths::kAllLongest;
    all_longest.facts.passes.dump = nullptr;
    const PlanRequest larger =
        request_of(with_train_batch(std::move(all_longest), micro * accumulation / steps, steps));
    ++plans;
    const Plan other = build_plan(larger);
    if (other.total_bytes() > *limit) continue;
    // Times are compared per token, because the sequences of the current plan may be shorter.
    const double own_ms =
        ms_per_sample(plan) * static_cast<double>(micro) / static_cast<double>(request.batches.train.tokens);
    const double other_ms = ms_per_sample(other) / static_cast<double>(request.batches.train.longest);
    if (other_ms <= 0 || own_ms < kWorthSaying * other_ms) return {};
    return fmt::format(
        "{} micro-batches of batch size {} are accumulated although larger ones fit: "
        "--per_device_train_batch_size {} --gradient_accumulation_steps {} needs {} of {} MiB and is "
        "estimated to be {:.2f} times as fast",
        accumulation, micro, larger.batches.train.sequences, steps, (other.total_bytes() + kMiB - 1) / kMiB,
        *limit / kMiB, own_ms / other_ms);
  }
  return {};
}

}  // namespace plimsoll
