#include "models/lora.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/philox.h"
#include "models/symmetric_eigen.h"

namespace plimsoll {
namespace {

using Values = std::vector<double>;

// Returns numbers between -1 and 1.
Values noise(int64_t count, uint32_t site) {
  Values values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        static_cast<double>(philox_element({.seed = 11, .step = 0, .site = site}, i)) / 2147483648.0 - 1.0;
  }
  return values;
}

double row_dot(const Values& a, int64_t i, const Values& b, int64_t j, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k)
    sum += a[static_cast<size_t>(i * n + k)] * b[static_cast<size_t>(j * n + k)];
  return sum;
}

double norm(const Values& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

Values difference(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

void expect_near(const Values& found, const Values& expected, double limit) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], limit) << i;
}

LoraConfig with(BaseChange change, int64_t r, double alpha = 8) {
  return {.r = r, .alpha = alpha, .base_change = change};
}

// Expects that A v = value v for every eigenpair, that the vectors are orthonormal, and that the values are in
// order.
void expect_eigenpairs(const Values& a, int64_t n) {
  const SymmetricEigen eigen = largest_eigenpairs(a, n, n);
  const double size = norm(a);
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) {
      EXPECT_LE(eigen.values[static_cast<size_t>(i)], eigen.values[static_cast<size_t>(i - 1)]);
    }
    for (int64_t j = 0; j <= i; ++j) {
      EXPECT_NEAR(row_dot(eigen.vectors, i, eigen.vectors, j, n), i == j ? 1.0 : 0.0,
                  1e-13 * static_cast<double>(n));
    }
    for (int64_t k = 0; k < n; ++k) {
      EXPECT_NEAR(row_dot(a, k, eigen.vectors, i, n),
                  eigen.values[static_cast<size_t>(i)] * eigen.vectors[static_cast<size_t>(i * n + k)],
                  1e-14 * static_cast<double>(n) * size);
    }
  }
}

TEST(SymmetricEigen, MatricesOfManyKinds) {
  for (const int64_t n : {1, 2, 3, 5, 32, 61}) {
    SCOPED_TRACE(n);
    Values a = noise(n * n, 1);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) a[static_cast<size_t>(i * n + j)] = a[static_cast<size_t>(j * n + i)];
    }
    expect_eigenpairs(a, n);
    Values identity(a.size(), 0.0);
    for (int64_t i = 0; i < n; ++i) identity[static_cast<size_t>(i * n + i)] = 3.0;
    expect_eigenpairs(identity, n);               // all eigenvalues are equal
    expect_eigenpairs(Values(a.size(), 0.0), n);  // a matrix of zeros, which is diagonal already
    expect_eigenpairs(Values(a.size(), 1.0), n);  // a matrix of rank one
    for (double& value : a) value *= 1e-140;      // tiny values, whose squares must not underflow
    expect_eigenpairs(a, n);
  }
}

// PiSSA removes the part of a matrix with its largest singular values. The rest is orthogonal to the removed part, and its spectral norm is
// the next smaller singular value. Both follow from the theorem of Eckart and Young.
TEST(LoraInit, PissaRemovesTheLargestSingularValues) {
  // W is diag(5, 3, 2, 1) multiplied by rotations on both sides, so its rest is diag(0, 0, 2, 1) multiplied by the same rotations.
  const double c = 0.6;
  const double s = 0.8;
  const auto rotated = [&](double a, double b, double d, double e) {
    // Returns diag(a, b, d, e) with a fifth row of zeros, after a rotation of rows 0 and 2 and a rotation of columns 1 and 3.
    Values w(20, 0.0);
    w[0] = c * a;
    w[8] = s * a;
    w[2] = -s * d;
    w[10] = c * d;
    w[5] = c * b;
    w[7] = s * b;
    w[13] = -s * e;
    w[15] = c * e;
    return w;
  };
  Values w = rotated(5, 3, 2, 1);
  change_base(w, 5, 4, with(BaseChange::kPissa, 2));
  expect_near(w, rotated(0, 0, 2, 1), 1e-14);
  // The transposed matrix tests the case of a matrix that is wider than high.
  const auto transposed = [](const Values& values) {
    Values result(20);
    for (size_t i = 0; i < 5; ++i)
      for (size_t j = 0; j < 4; ++j) result[j * 5 + i] = values[i * 4 + j];
    return result;
  };
  Values wide = transposed(rotated(5, 3, 2, 1));
  change_base(wide, 4, 5, with(BaseChange::kPissa, 3, 24));
  expect_near(wide, transposed(rotated(0, 0, 0, 1)), 1e-14);
  Values all = rotated(5, 3, 2, 1);
  change_base(all, 5, 4, with(BaseChange::kPissa, 4));
  expect_near(all, Values(20, 0.0), 1e-14);
}

TEST(LoraInit, PissaLeavesAnOrthogonalRest) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{32, 32}, {48, 20}, {20, 48}}) {
    SCOPED_TRACE(rows);
    const Values w = noise(rows * columns, 2);
    Values rest = w;
    change_base(rest, rows, columns, with(BaseChange::kPissa, 6));
    const Values removed = difference(w, rest);
    const double limit = 1e-13 * norm(w) * norm(w);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < rows; ++j) EXPECT_NEAR(row_dot(rest, i, removed, j, columns), 0.0, limit);
    }
    // Applying PiSSA again to the rest removes the next smaller singular values, so the norm of the removed part is smaller.
    Values twice = rest;
    change_base(twice, rows, columns, with(BaseChange::kPissa, 6));
    EXPECT_LT(norm(difference(rest, twice)), norm(removed));
    EXPECT_GT(norm(difference(rest, twice)), 0.0);
  }
}

// OLoRA computes W - s Q_r R_r. With s = 1 the first r columns become zero, and the rest is orthogonal to these columns. With another s the
// removed part is multiplied by s.
TEST(LoraInit, OloraRemovesTheProjectionOntoTheFirstColumns) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{32, 32}, {48, 20}, {20, 48}}) {
    SCOPED_TRACE(rows);
    const Values w = noise(rows * columns, 3);
    Values once = w;
    change_base(once, rows, columns, with(BaseChange::kOlora, 4, 4));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < 4; ++j) EXPECT_NEAR(once[static_cast<size_t>(i * columns + j)], 0.0, 1e-14);
    }
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t k = 4; k < columns; ++k) {
        double sum = 0;
        for (int64_t i = 0; i < rows; ++i)
          sum += w[static_cast<size_t>(i * columns + j)] * once[static_cast<size_t>(i * columns + k)];
        EXPECT_NEAR(sum, 0.0, 1e-12);
      }
    }
    Values scaled = w;
    change_base(scaled, rows, columns, with(BaseChange::kOlora, 4, 10));
    Values expected = w;
    for (size_t i = 0; i < w.size(); ++i) expected[i] -= 2.5 * (w[i] - once[i]);
    expect_near(scaled, expected, 1e-13);
    LoraConfig rank_stable = with(BaseChange::kOlora, 4, 5);
    rank_stable.use_rslora = true;  // with rsLoRA the scale is alpha / sqrt(rank) = 5 / sqrt(4)
    Values stable = w;
    change_base(stable, rows, columns, rank_stable);
    expect_near(stable, expected, 1e-13);
  }
}

// If a column depends linearly on the columns before it, LAPACK chooses the next unit vector for Q.
TEST(LoraInit, OloraOfDependentColumns) {
  Values w{0, 1, 2,  //
           0, 3, 4,  //
           0, 5, 6};
  change_base(w, 3, 3, with(BaseChange::kOlora, 1, 1));
  expect_near(w, {0, 0, 0, 0, 3, 4, 0, 5, 6}, 1e-15);
}

TEST(LoraInit, OtherAdaptersKeepTheBase) {
  const Values w = noise(12, 4);
  Values same = w;
  change_base(same, 4, 3, with(BaseChange::kNone, 2));
  EXPECT_EQ(same, w);
}

// PEFT slices the factors of a matrix, so a rank above its smaller dimension means this dimension; the scale is still alpha / r. PiSSA then
// leaves nothing of the weight, and OLoRA leaves 1 - alpha / r of it. The matrices of other adapters have the rank r.
TEST(LoraInit, ARankAboveTheWeightIsItsSmallerDimension) {
  for (const auto& [rows, columns] : {std::pair(4, 3), std::pair(3, 4), std::pair(3, 3)}) {
    const Values w = noise(rows * columns, 4);
    EXPECT_EQ(with(BaseChange::kPissa, 5).rank_of(rows, columns), 3);
    EXPECT_EQ(with(BaseChange::kOlora, 5).rank_of(rows, columns), 3);
    EXPECT_EQ(with(BaseChange::kOlora, 2).rank_of(rows, columns), 2);
    EXPECT_EQ(with(BaseChange::kNone, 5).rank_of(rows, columns), 5);
    Values rest = w;
    change_base(rest, rows, columns, with(BaseChange::kPissa, 5));
    expect_near(rest, Values(w.size(), 0.0), 1e-12);
    rest = w;
    LoraConfig olora = with(BaseChange::kOlora, 5);
    olora.alpha = 2;
    change_base(rest, rows, columns, olora);
    Values wanted = w;
    for (double& value : wanted) value *= 1.0 - 2.0 / 5.0;
    expect_near(rest, wanted, 1e-12);
  }
}

}  // namespace
}  // namespace plimsoll
