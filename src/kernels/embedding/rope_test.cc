// Tests rotary embeddings: compares the fast kernels with the references within the error bounds of the contract, and checks the gradient
// and the inverse of the rotation, tail rows, and the elements that are not rotated.
#include "kernels/embedding/rope.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

// The sequences have lengths 3, 0, 9 and 1 in 16 rows, so three rows are unused. Positions restart in each sequence.
constexpr int32_t kCuSeqlens[] = {0, 3, 3, 12, 13};
constexpr int32_t kPositions[] = {0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0};
constexpr int64_t T = 16, B = 4;

RopeTableArgs table_args(const RopeParameters& parameters, int64_t D, const View& table) {
  return {.positions = {kPositions, DType::kI32},
          .cu_seqlens = {kCuSeqlens, DType::kI32},
          .table = table,
          .T = T,
          .B = B,
          .D = D,
          .frequencies = rope_frequencies(parameters, D)};
}

std::vector<RopeParameters> all_types(int64_t D) {
  std::vector<RopeParameters> all;
  for (const RopeTypeName& row : kRopeTypeNames) {
    RopeParameters p{.type = row.type, .theta = 100.0, .factor = 4.0, .original = 8.0};
    p.attention_factor = 1.2;
    p.short_factor.assign(static_cast<size_t>(D / 2), 1.5);
    p.long_factor.assign(static_cast<size_t>(D / 2), 3.0);
    all.push_back(p);
  }
  return all;
}

TEST(RopeTable, AgreesWithTheReferenceForEveryType) {
  int checked = 0;
  for (const int64_t D : {2, 8, 34, 128}) {
    for (const RopeParameters& parameters : all_types(D)) {
      SCOPED_TRACE(rope_text(parameters));
      GuardedBuffer want("want", DType::kF64, T * D);
      rope_table_ref(table_args(parameters, D, want.view()));
      const RopeFrequencies f = rope_frequencies(parameters, D);
      std::vector<double> bounds;
      for (int64_t i = 0; i < T * D; ++i) {
        bounds.push_back(rope_table_error_bound(f.scale, kPositions[i / D], DType::kF32));
      }
      FastRows(rope_table_ref).for_each(DType::kF32, [&](const auto& rope_table) {
        GuardedBuffer table("table", DType::kF32, T * D);
        run_with_one_and_two_threads({&table}, [&] { rope_table(table_args(parameters, D, table.view())); });
        EXPECT_TRUE(compare(table, want, limit_of(bounds, Zeros::kExpected)).ok())
            << compare(table, want, limit_of(bounds, Zeros::kExpected));
        // The sequence of nine tokens begins at row 3. Row 7 of the table is that of its fifth token, whose position is 4.
        EXPECT_NEAR(table.load(7 * D), f.scale * std::cos(4.0 * f.frequency(0, D, 9)), 1e-6);
        EXPECT_NEAR(table.load(7 * D + D / 2), f.scale * std::sin(4.0 * f.frequency(0, D, 9)), 1e-6);
      });
      ++checked;
    }
  }
  EXPECT_EQ(checked, 24);
}

// For the RoPE types dynamic and longrope, the frequencies must follow the length of the token's own sequence. One sequence has 9 tokens
// and is longer than the original length of 8; the other sequences are not.
TEST(RopeTable, LengthsOfOtherSequencesDoNotMatter) {
  constexpr int64_t D = 4;
  for (const RopeType type : {RopeType::kDynamic, RopeType::kLongRope}) {
    RopeParameters p{.type = type, .theta = 100.0, .factor = 4.0, .original = 8.0};
    p.short_factor = {1.5, 1.5};
    p.long_factor = {3.0, 3.0};
    GuardedBuffer table("table", DType::kF32, T * D);
    rope_table_cpu(table_args(p, D, table.view()));
    const RopeFrequencies f = rope_frequencies(p, D);
    EXPECT_NE(f.frequency(1, D, 3), f.frequency(1, D, 9));
    // Checks the second token of the sequence with three tokens.
    EXPECT_NEAR(table.load(1 * D + 1), std::cos(f.frequency(1, D, 3)), 1e-7);
    // Checks the second token of the sequence with nine tokens.
    EXPECT_NEAR(table.load(4 * D + 1), std::cos(f.frequency(1, D, 9)), 1e-7);
  }
}

// Tests a position so large that angles that are computed in fp32 would have an error of 10^-2.
TEST(RopeTable, FarPositionsKeepTheirPrecision) {
  constexpr int32_t kFar = 1000003, kStart[] = {0, 1};
  GuardedBuffer table("table", DType::kF32, 2);
  rope_table_cpu({.positions = {&kFar, DType::kI32},
                  .cu_seqlens = {kStart, DType::kI32},
                  .table = table.view(),
                  .T = 1,
                  .B = 1,
                  .D = 2,
                  .frequencies = rope_frequencies({}, 2)});
  EXPECT_NEAR(table.load(0), std::cos(1000003.0), 1e-7);
  EXPECT_NEAR(table.load(1), std::sin(1000003.0), 1e-7);
}

struct Heads {
  int64_t rotated, all, D;
};
const std::vector<Heads> kHeads{{1, 1, 2}, {2, 3, 8}, {5, 6, 34}, {3, 4, 64}, {2, 2, 96}};

TEST(Rope, AgreesWithTheReference) {
  for (const auto& [H, all, D] : kHeads) {
    const int64_t N = all * D;
    for (const DType dtype : fast_types()) {
      GuardedBuffer x(tensor_name("x", {T, N}, dtype), dtype, T * N), table("table", DType::kF32, T * D);
      x.fill_normal();
      rope_table_cpu(table_args({.theta = 30.0}, D, table.view()));
      for (const RopeDirection direction : {RopeDirection::kForward, RopeDirection::kTransposed}) {
        GuardedBuffer want("want", DType::kF64, T * N);
        RopeArgs args{.x = x.view(), .table = table.view(), .y = want.view(), .T = T, .N = N, .H = H, .D = D};
        args.direction = direction;
        rope_ref(args);
        std::vector<double> bounds;
        for (int64_t at = 0; at < T * N; ++at) {
          const int64_t t = at / N, n = at % N, i = n % (D / 2);
          const bool second = n % D >= D / 2;
          const double other = x.load(second ? at - D / 2 : at + (n < H * D ? D / 2 : 0));
          const double bound = rope_error_bound(x.load(at), other, table.load(t * D + i),
                                                table.load(t * D + D / 2 + i), want.load(at), dtype);
          bounds.push_back(n < H * D ? bound : 0.0);
        }
        FastRows(rope_ref).for_each(dtype, [&](const auto& rope) {
          GuardedBuffer y("y", dtype, T * N), in_place("in place", dtype, T * N);
          args.y = y.view();
          run_with_one_and_two_threads({&y}, [&] { rope(args); });
          EXPECT_TRUE(compare(y, want, limit_of(bounds)).ok()) << compare(y, want, limit_of(bounds));
          in_place.assign(x.to_doubles());
          RopeArgs same = args;
          same.x = in_place.view(), same.y = in_place.view();
          rope(same);
          EXPECT_TRUE(compare_bits(in_place, y).ok());
        });
      }
    }
  }
}

// The transposed rotation of the reference must be the gradient, and also the inverse unless cos and sin are scaled.
TEST(Rope, TheTransposedRotationIsTheGradient) {
  constexpr int64_t D = 6, H = 2, N = 3 * D;
  RopeParameters p{.type = RopeType::kYarn, .theta = 30.0, .factor = 2.0, .original = 8.0};
  p.attention_factor = 1.3;
  GuardedBuffer table("table", DType::kF64, T * D);
  rope_table_ref(table_args(p, D, table.view()));
  GuardedBuffer x(tensor_name("x", {T, N}, DType::kF64), DType::kF64, T * N);
  GuardedBuffer weights(tensor_name("weights", {T, N}, DType::kF64), DType::kF64, T * N);
  x.fill_normal();
  weights.fill_normal();
  GuardedBuffer y("y", DType::kF64, T * N), d_x("d_x", DType::kF64, T * N);
  const RopeArgs forward{.x = x.view(), .table = table.view(), .y = y.view(), .T = T, .N = N, .H = H, .D = D};
  RopeArgs backward = forward;
  backward.x = weights.view(), backward.y = d_x.view();
  backward.direction = RopeDirection::kTransposed;
  rope_ref(backward);
  expect_gradient(x, d_x, [&] {
    rope_ref(forward);
    return weighted_sum(weights, y);
  });
  rope_ref(forward);
  GuardedBuffer again("again", DType::kF64, T * N);
  backward.x = y.view(), backward.y = again.view();
  rope_ref(backward);
  for (int64_t at = 0; at < T * N; ++at) {
    const double squared_scale = at % N < H * D ? 1.69 : 1.0;
    EXPECT_NEAR(again.load(at), squared_scale * x.load(at), 1e-12) << at;
  }
}

TEST(Rope, ScoresDependOnDistancesOnly) {
  constexpr int64_t D = 8;
  GuardedBuffer table("table", DType::kF32, T * D), x("x", DType::kF32, T * D), y("y", DType::kF32, T * D);
  rope_table_cpu(table_args({.theta = 30.0}, D, table.view()));
  for (int64_t i = 0; i < T * D; ++i) x.view().store(i, 0.1 * static_cast<double>(i % D) - 0.2);
  rope_cpu({.x = x.view(), .table = table.view(), .y = y.view(), .T = T, .N = D, .H = 1, .D = D});
  const auto score = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t i = 0; i < D; ++i) sum += y.load(a * D + i) * y.load(b * D + i);
    return sum;
  };
  EXPECT_NEAR(score(3, 5), score(8, 10), 1e-6);
  EXPECT_GT(std::abs(score(3, 5) - score(3, 6)), 1e-3);
}

}  // namespace
}  // namespace plimsoll::test
