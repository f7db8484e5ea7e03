// Checks that hold for the updates of all optimizers: the error bound of the optimizer's header, no change if a gradient is not finite, the
// same bits for any number of threads and any division of the tensors into calls, and exact 16-bit copies. For tests of this folder on a
// CPU. Not thread-safe: it sets the number of threads.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/optimizer/testing/update_bounds.h"

namespace plimsoll::test {

// The learning rate, step number, clip coefficient and finite flag of a step, with the types in which the executor stores them.
struct Scalars {
  double lr = 1e-3;
  int64_t step = 1;
  float clip = 1.0f;
  float finite = 1.0f;

  ScalarViews views() const {
    return {{&lr, DType::kF64}, {&step, DType::kI64}, {&clip, DType::kF32}, {&finite, DType::kF32}};
  }
};

// An optimizer under test. Its kernels update a list of tensors with the scalars of one step.
struct TestedUpdate {
  using Kernel = std::function<void(std::span<const OptimizerTensor>, const Scalars&, double weight_decay)>;
  std::string name;
  Kernel ref, cpu;
  std::vector<GuardedBuffer& (TensorList::*)(size_t)> states;
  void (*fill)(TensorList&) = [](TensorList& list) { list.fill(); };
};

inline void expect_same_tensor(const TestedUpdate& update, TensorList& got, TensorList& want, size_t i) {
  EXPECT_TRUE(compare_bits(got.param(i), want.param(i)).ok()) << i;
  for (const auto state : update.states) {
    EXPECT_TRUE(compare_bits((got.*state)(i), (want.*state)(i)).ok()) << i;
  }
}

// Compares one update with the reference, from the same starting values. make(tensors, scalars, decay) must return the arguments of the
// reference. within(start, want, got, arguments) must compare the results within the error bound; update_bounds.h contains such functions.
template <typename Make, typename Within>
void expect_one_step_within(const TestedUpdate& update, const Scalars& scalars, double weight_decay,
                            const Make& make, const Within& within) {
  TensorList start(update.name + "/start", DType::kF32, kAwkwardCounts);
  update.fill(start);
  TensorList want(update.name + "/want", DType::kF64, kAwkwardCounts),
      got(update.name + "/got", DType::kF32, kAwkwardCounts);
  want.copy_from(start);
  got.copy_from(start);
  update.ref(want.tensors(), scalars, weight_decay);
  update.cpu(got.tensors(), scalars, weight_decay);
  within(start, want, got, make(want.tensors(), scalars, weight_decay));
}

inline void expect_no_change_when_not_finite(const TestedUpdate& update) {
  for (const auto& kernel : {update.ref, update.cpu}) {
    TensorList list(update.name + "_flag", DType::kF32, {100, 5000}),
        before(update.name + "_flag", DType::kF32, {100, 5000});
    update.fill(list);
    list.grad(1).view().store(3, std::numeric_limits<double>::infinity());
    before.copy_from(list);
    kernel(list.tensors(), {.finite = 0.0f}, 0.1);
    for (size_t i = 0; i < list.size(); ++i) expect_same_tensor(update, list, before, i);
  }
}

// Expects that elements whose gradients were always zero do not change, and that an element whose gradient is NaN becomes NaN.
inline void expect_no_step_without_gradient(const TestedUpdate& update) {
  for (const auto& kernel : {update.ref, update.cpu}) {
    TensorList list(update.name + "_zero", DType::kF32, {40});
    update.fill(list);
    for (const auto state : update.states) (list.*state)(0).fill(0.0);
    list.grad(0).fill(0.0);
    list.grad(0).view().store(7, std::nan(""));
    const std::vector<double> before = list.param(0).to_doubles();
    kernel(list.tensors(), {}, 0.0);
    for (int64_t i = 0; i < 40; ++i) {
      if (i == 7) {
        EXPECT_TRUE(std::isnan(list.param(0).load(i)));
      } else {
        EXPECT_EQ(list.param(0).load(i), before[static_cast<size_t>(i)]);
      }
    }
  }
}

inline void expect_same_bits_for_any_threads_and_grouping(const TestedUpdate& update) {
  const int before = num_threads();
  TensorList start(update.name + "_threads", DType::kF32, kAwkwardCounts);
  update.fill(start);
  TensorList one("one", DType::kF32, kAwkwardCounts);
  one.copy_from(start);
  const Scalars scalars{.step = 3};
  set_num_threads(1);
  // Updates each tensor in a separate call, because the result must not depend on how tensors are divided into calls.
  for (size_t i = 0; i < one.size(); ++i) update.cpu(one.tensors().subspan(i, 1), scalars, 0.01);
  for (const int threads : {1, 2, 3, 5}) {
    SCOPED_TRACE(threads);
    set_num_threads(threads);
    TensorList many("many", DType::kF32, kAwkwardCounts);
    many.copy_from(start);
    update.cpu(many.tensors(), scalars, 0.01);
    for (size_t i = 0; i < one.size(); ++i) {
      if (one.param(i).count() != 0) expect_same_tensor(update, many, one, i);
    }
  }
  set_num_threads(before);
}

inline void expect_16_bit_copies(const TestedUpdate& update) {
  for (const auto& kernel : {update.ref, update.cpu}) {
    for (const DType low : {DType::kBF16, DType::kF16}) {
      TensorList list(update.name + "_low", DType::kF32, kAwkwardCounts);
      update.fill(list);
      std::vector<GuardedBuffer> copies;
      for (size_t i = 0; i < list.size(); ++i) {
        copies.emplace_back(update.name + "_low/copy", low, list.param(i).count());
        list.mutable_tensors()[i].low = copies.back().view();
      }
      kernel(list.tensors(), {.lr = 0.05, .step = 2}, 0.01);
      for (size_t i = 0; i < list.size(); ++i) {
        if (copies[i].count() == 0) continue;
        EXPECT_TRUE(compare_bits(copies[i], copy_of_parameters(list.param(i), low)).ok()) << i;
        EXPECT_EQ(copies[i].broken_guard(), GuardedBuffer::kIntact);
      }
    }
  }
}

inline void expect_weights_in_bf16_alone(const TestedUpdate& update) {
  TensorList want(update.name + "_bf16", DType::kF32, kAwkwardCounts),
      got(update.name + "_bf16", DType::kF32, kAwkwardCounts);
  update.fill(want);
  got.copy_from(want);
  NarrowParameters before(want), wanted(want), weights(want);
  wanted.give_to(want);
  weights.give_to(got);
  const Scalars scalars{.lr = 0.01, .step = 3};
  update.ref(want.tensors(), scalars, 0.01);
  update.cpu(got.tensors(), scalars, 0.01);
  expect_the_same_noise(before, weights, wanted);
  EXPECT_NE(weights.p[7].to_doubles(), before.p[7].to_doubles());
}

// Updates many equal elements once. With stochastic rounding, the mean of the results in bf16 must be the result in fp32. The error of one
// rounding is at most one spacing (2^-8 for numbers below 1) and has a standard deviation of at most half of it; the error of the mean of
// 20000 elements has one of 2^-9 / 141 = 1.4e-5.
inline void expect_bf16_follows_fp32_on_average(const TestedUpdate& update) {
  constexpr int64_t kCount = 20000;
  for (const auto& kernel : {update.ref, update.cpu}) {
    TensorList exact(update.name + "_mean", DType::kF32, {kCount}),
        list(update.name + "_mean", DType::kF32, {kCount});
    GuardedBuffer weights(update.name + "_mean/bf16", DType::kBF16, kCount);
    weights.fill(0.9375);
    list.mutable_tensors()[0].param = weights.view();
    for (TensorList* l : {&exact, &list}) {
      l->param(0).fill(0.9375);
      l->grad(0).fill(0.5);
      l->m(0).fill(0.25);
      l->v(0).fill(0.25);
    }
    const Scalars scalars{.lr = 0x1p-10, .step = 3};
    kernel(exact.tensors(), scalars, 0.0);
    kernel(list.tensors(), scalars, 0.0);
    double mean = 0;
    for (int64_t k = 0; k < kCount; ++k) mean += weights.load(k) / double(kCount);
    EXPECT_NE(exact.param(0).load(0), 0.9375);
    EXPECT_NEAR(mean, exact.param(0).load(0), 5 * 1.4e-5);
  }
}

}  // namespace plimsoll::test
