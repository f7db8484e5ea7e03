// Code that the tests against PyTorch's optimizers share: 50 updates of six weights with the values of
// fixtures/make_torch_values.py, compared after steps 1, 2, 10 and 50. For tests of this folder. Thread-safe: no
// state.
#pragma once

#include <gtest/gtest.h>

#include <iterator>
#include <span>
#include <utility>

#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/testing/optimizer_tensors.h"

namespace plimsoll::test {

inline constexpr int kFixtureCount = 6;
inline constexpr int kFixtureSeen[] = {1, 2, 10, 50};

inline double fixture_gradient(int step, int i) {
  return ((step * 7 + i * 13) % 17 - 8) / 8.0;
}

// The learning rate, clip coefficient and step number that are passed to a kernel.
struct FixtureScalars {
  double lr = 0.0, clip = 1.0;
  int64_t step = 0;
};

// The functions that compute the norm of the gradients and the clip coefficient.
struct FixtureClipping {
  void (*norm)(const GlobalNormArgs&) = global_norm_ref;
  void (*coefficient)(const ClipCoefficientArgs&) = clip_coefficient_ref;
};

// Runs 50 steps on `list` (one tensor of six elements), starting from its current states. update(scalars) must call the kernel once. After
// each step that is listed in kFixtureSeen, seen(index, step) is called with the index of the step in this list.
template <typename Update, typename Seen>
void run_fixture(TensorList& list, double peak_lr, double max_norm, Update&& update, Seen&& seen,
                 const FixtureClipping& clipping = {}) {
  for (int i = 0; i < kFixtureCount; ++i) list.param(0).view().store(i, (i - 2.5) / 4.0);
  size_t next = 0;
  for (int step = 1; step <= 50; ++step) {
    for (int i = 0; i < kFixtureCount; ++i) list.grad(0).view().store(i, fixture_gradient(step, i));
    FixtureScalars scalars{.lr = peak_lr * (1.0 - (step - 1) / 64.0), .step = step};
    double norm = 0.0;
    clipping.norm({.tensors = list.tensors(), .norm = {&norm, DType::kF64}});
    clipping.coefficient(
        {.norm = {&norm, DType::kF64}, .coefficient = {&scalars.clip, DType::kF64}, .max_norm = max_norm});
    update(scalars);
    if (step == kFixtureSeen[next]) seen(next++, step);
  }
  EXPECT_EQ(next, std::size(kFixtureSeen));
}

// Runs 50 steps of an optimizer with one state and compares the weights with `fixture`, a row of fixtures/*_values.inc of type Case.
// limit(step) returns the largest allowed difference. After the last step, the state is compared with `state`; it may differ by limit(50) /
// learning rate.
template <typename Case, typename Update, typename Limit>
void expect_fixture(TensorList& list, const Case& fixture, std::span<const double> state, Update&& update,
                    Limit&& limit, const FixtureClipping& clipping = {}) {
  run_fixture(
      list, fixture.lr, fixture.max_norm, std::forward<Update>(update),
      [&](size_t index, int step) {
        const auto result = compare(list.param(0), fixture.params[index], {.absolute = limit(step)});
        EXPECT_TRUE(result.ok()) << "lr " << fixture.lr << " step " << step << " " << result;
      },
      clipping);
  if (state.empty()) return;
  const auto m = compare(list.m(0), state, {.absolute = limit(50) / fixture.lr});
  EXPECT_TRUE(m.ok()) << m;
}

}  // namespace plimsoll::test
