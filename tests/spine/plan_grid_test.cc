// Plans every known model (preset) for a grid of sizes and for random sizes. Each plan is close to its lower bound, and
// no two of its buffers overlap.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/compile/testing/plan_case.h"
#include "tests/spine/plan_grid.h"

namespace plimsoll {
namespace {

int expect_good_plan(const GridPoint& point) {
  const Plan plan = plan_of(point);
  int programs = 0;
  for (const ProgramPlan& program : plan.programs) {
    expect_near_lower_bound(program, text_of(point));
    EXPECT_GT(expect_apart(program, text_of(point)), 0);
    ++programs;
  }
  return programs;
}

TEST(PlanGrid, EveryPresetAtEverySize) {
  int programs = 0;
  for (const std::string& preset : preset_names()) {
    for (const int64_t sequences : {1, 4, 8, 32}) {
      for (const int64_t longest : {16, 24, 64, 128, 512}) {
        for (const int64_t accumulation : {1, 4}) {
          for (const DType dtype : {DType::kF32, DType::kBF16}) {
            GridPoint point = full_batch(preset, sequences, longest);
            point.accumulation = accumulation;
            point.activations = dtype;
            programs += expect_good_plan(point);
          }
        }
      }
    }
  }
  EXPECT_EQ(programs, static_cast<int>(preset_names().size()) * 4 * 5 * 2 * 2 * 2);
}

// Plans random sizes. Real batches have arbitrary numbers of tokens, and the number of threads of the machine,
// which determines the scratch memory, is arbitrary too.
TEST(PlanGrid, PresetsAtRandomSizes) {
  const std::vector<std::string> presets = preset_names();
  constexpr int kThreads[] = {1, 2, 4, 8, 16, 48};
  int programs = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    CaseRandom random(seed);
    const int64_t sequences = random.between(1, 64);
    GridPoint point =
        full_batch(presets[static_cast<size_t>(random.between(0, static_cast<int64_t>(presets.size()) - 1))],
                   sequences, random.between(8, 512));
    point.bucket.tokens = random.between(std::max(sequences, point.bucket.tokens / 8), point.bucket.tokens);
    point.accumulation = random.coin() ? 1 : 4;
    point.activations = random.coin() ? DType::kF32 : DType::kBF16;
    point.num_threads = kThreads[random.between(0, 5)];
    programs += expect_good_plan(point);
  }
  EXPECT_EQ(programs, 3000);
}

}  // namespace
}  // namespace plimsoll
