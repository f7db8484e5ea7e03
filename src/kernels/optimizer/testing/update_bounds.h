// Code that the tests of updates on a CPU and on a GPU share: it passes the scalars of a step to a kernel, and compares one update with the
// error bounds of the optimizers' headers. For tests of this folder. Thread-safe: no state.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/sgd.h"
#include "kernels/optimizer/testing/optimizer_tensors.h"

namespace plimsoll::test {

struct ScalarViews {
  ConstView lr, step, clip, finite;
};

// Returns the arguments of an update. The step number is set only if the update depends on it. The options of the optimizer keep their
// defaults.
template <typename Args>
Args update_args(decltype(Args::tensors) tensors, const ScalarViews& scalars, double weight_decay) {
  Args args{.tensors = tensors,
            .learning_rate = scalars.lr,
            .clip_coefficient = scalars.clip,
            .finite = scalars.finite,
            .weight_decay = weight_decay};
  if constexpr (requires { args.step; }) args.step = scalars.step;
  return args;
}

// Returns the number of elements that differ. Two differing elements must be adjacent bf16 numbers, otherwise the test fails.
inline int64_t count_neighbours(const GuardedBuffer& got, const GuardedBuffer& want) {
  int64_t others = 0;
  for (int64_t k = 0; k < want.count(); ++k) {
    const int distance = got.view().as<BF16>()[k].bits - want.view().as<BF16>()[k].bits;
    EXPECT_LE(std::abs(distance), 1) << k;
    if (distance != 0) ++others;
  }
  return others;
}

// Compares parameters that are stored only in bf16 after an update of `before` by a kernel and by the reference. Both round with the same
// random numbers, but the fp32 numbers that they round differ: at most by 2^-19 of the numbers before and after the update (a generous
// bound), and mostly by about 2^-22, while bf16 numbers have a spacing of 2^-8. About one in 16000 is therefore rounded to the adjacent
// bf16 number. The limit also depends on the parameter before the update: if a step cancels nearly all of it, the error exceeds the spacing
// of bf16 numbers at the small result.
inline void expect_the_same_noise(const NarrowParameters& before, const NarrowParameters& got,
                                  const NarrowParameters& want) {
  int64_t all = 0, others = 0;
  for (size_t i = 0; i < want.p.size(); ++i) {
    all += want.p[i].count();
    for (int64_t k = 0; k < want.p[i].count(); ++k) {
      const double a = got.p[i].load(k), b = want.p[i].load(k);
      if (a == b) continue;
      ++others;
      const double size = std::fabs(b);
      EXPECT_NEAR(a, b, 0x1p-7 * size + 0x1p-19 * (std::fabs(before.p[i].load(k)) + size)) << i << " " << k;
    }
    EXPECT_EQ(got.p[i].broken_guard(), GuardedBuffer::kIntact);
  }
  EXPECT_LT(others, 4 + all / 1000);
}

// The largest allowed differences of the elements of one tensor. A state is not compared if its vector is empty.
struct UpdateLimits {
  std::vector<double> param, m, v;
};
// Compares every tensor of `got` with `want`. limits(i, j, all) must append the largest allowed differences of element j of tensor i to
// `all`.
template <typename Limits>
void expect_update_within(TensorList& want, TensorList& got, Limits&& limits) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (want.param(i).count() == 0) continue;
    UpdateLimits all;
    for (int64_t j = 0; j < want.param(i).count(); ++j) limits(i, j, all);
    const auto expect = [&](GuardedBuffer& a, GuardedBuffer& b, const std::vector<double>& per_element,
                            const char* what) {
      const auto result = compare(a, b, {.per_element = per_element});
      EXPECT_TRUE(result.ok()) << "tensor " << i << " " << what << " " << result;
    };
    expect(got.param(i), want.param(i), all.param, "param");
    if (!all.m.empty()) expect(got.m(i), want.m(i), all.m, "m");
    if (!all.v.empty()) expect(got.v(i), want.v(i), all.v, "v");
  }
}

// Compares one update of `start` by the reference (`want`, computed with `args`) and by a kernel (`got`).
inline void expect_adamw_within(TensorList& start, TensorList& want, TensorList& got, const AdamwArgs& args) {
  const AdamwCoefficients c = adamw_coefficients(args);
  expect_update_within(want, got, [&](size_t i, int64_t j, UpdateLimits& limits) {
    const auto larger = [&](GuardedBuffer& a, GuardedBuffer& b) {
      return std::max(std::fabs(a.load(j)), std::fabs(b.load(j)));
    };
    const double v = want.v(i).load(j);
    const double denominator = std::sqrt(v) * c.inverse_sqrt_bc2 + args.epsilon;
    const AdamwErrorBound bound =
        adamw_error_bound(c, larger(start.param(i), want.param(i)), larger(start.m(i), want.m(i)), v,
                          std::fabs(start.grad(i).load(j)), denominator);
    limits.param.push_back(bound.param);
    limits.m.push_back(bound.m);
    limits.v.push_back(bound.v);
  });
}

inline void expect_lion_within(TensorList& start, TensorList& want, TensorList& got, const LionArgs& args) {
  const LionCoefficients k = lion_coefficients(args);
  expect_update_within(want, got, [&](size_t i, int64_t j, UpdateLimits& limits) {
    const LionErrorBound bound =
        lion_error_bound(k, start.param(i).load(j), start.m(i).load(j), start.grad(i).load(j));
    limits.param.push_back(bound.param);
    limits.m.push_back(bound.m);
  });
}

inline void expect_adagrad_within(TensorList& start, TensorList& want, TensorList& got,
                                  const AdagradArgs& args) {
  const double rate = adagrad_rate(args), clip = args.clip_coefficient.load(0);
  expect_update_within(want, got, [&](size_t i, int64_t j, UpdateLimits& limits) {
    const double p = std::fabs(start.param(i).load(j));
    const double gradient = clip * std::fabs(start.grad(i).load(j)) + args.weight_decay * p;
    const AdagradErrorBound bound = adagrad_error_bound(rate, args.epsilon, p, gradient, want.m(i).load(j));
    limits.param.push_back(bound.param);
    limits.m.push_back(bound.v);
  });
}

inline void expect_sgd_within(TensorList& start, TensorList& want, TensorList& got, const SgdArgs& args) {
  const double lr = args.learning_rate.load(0);
  expect_update_within(want, got, [&](size_t i, int64_t j, UpdateLimits& limits) {
    const SgdErrorBound bound =
        sgd_error_bound(lr, args.momentum, args.weight_decay, std::fabs(start.param(i).load(j)),
                        std::fabs(start.m(i).load(j)), std::fabs(start.grad(i).load(j)));
    limits.param.push_back(bound.param);
    if (args.momentum != 0.0) limits.m.push_back(bound.m);
  });
}

}  // namespace plimsoll::test
