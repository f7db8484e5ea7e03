#include "models/lora.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "models/dense_rows.h"
#include "models/symmetric_eigen.h"

namespace plimsoll {
namespace {

using internal::add_scaled;
using internal::dot;

// A view of a matrix that is stored row by row.
struct Matrix {
  std::span<double> values;
  size_t rows;
  size_t columns;
  std::span<double> row(size_t i) const { return values.subspan(i * columns, columns); }
};

// Returns W^T W, or W W^T if W is wider than high.
std::vector<double> gram(const Matrix& w) {
  const bool is_high = w.columns <= w.rows;
  const size_t n = std::min(w.rows, w.columns);
  std::vector<double> g(n * n, 0.0);
  if (is_high) {
    for (size_t i = 0; i < w.rows; ++i) {
      const std::span<double> row = w.row(i);
      for (size_t j = 0; j < n; ++j) {
        add_scaled(std::span(g).subspan(j * n + j, n - j), row[j], row.subspan(j));
      }
    }
  } else {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i; j < n; ++j) g[i * n + j] = dot(w.row(i), w.row(j));
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) g[i * n + j] = g[j * n + i];
  }
  return g;
}

void remove_principal_part(const Matrix& w, size_t r) {
  const size_t n = std::min(w.rows, w.columns);
  const SymmetricEigen eigen = largest_eigenpairs(gram(w), static_cast<int64_t>(n), static_cast<int64_t>(r));
  for (size_t k = 0; k < r; ++k) {
    const std::span<const double> vector = std::span(eigen.vectors).subspan(k * n, n);
    if (w.columns <= w.rows) {
      for (size_t i = 0; i < w.rows; ++i) add_scaled(w.row(i), -dot(w.row(i), vector), vector);
    } else {
      std::vector<double> projected(w.columns, 0.0);
      for (size_t i = 0; i < w.rows; ++i) add_scaled(projected, vector[i], w.row(i));
      for (size_t i = 0; i < w.rows; ++i) add_scaled(w.row(i), -vector[i], projected);
    }
  }
}

// The Householder reflection I - factor v v^T, which acts on the rows from `first` on.
struct Reflection {
  size_t first = 0;
  std::vector<double> v;
  double factor = 0.0;

  void apply(const Matrix& w) const {
    if (factor == 0.0) return;
    std::vector<double> sum(w.columns, 0.0);
    for (size_t i = 0; i < v.size(); ++i) add_scaled(sum, v[i], w.row(first + i));
    for (size_t i = 0; i < v.size(); ++i) add_scaled(w.row(first + i), -factor * v[i], sum);
  }
};

// Replaces W by Q D Q^T W. Q is the orthogonal matrix of the QR decomposition of the first r columns of W, and D multiplies the first r
// rows by 1 - scale. The reflections that form Q are computed as in LAPACK's dgeqr2.
void remove_first_columns(const Matrix& w, size_t r, double scale) {
  std::vector<Reflection> reflections;
  for (size_t k = 0; k < r; ++k) {
    Reflection reflection{.first = k, .v = std::vector<double>(w.rows - k)};
    for (size_t i = k; i < w.rows; ++i) reflection.v[i - k] = w.row(i)[k];
    const std::span<double> v = reflection.v;
    if (std::any_of(v.begin() + 1, v.end(), [](double x) { return x != 0.0; })) {
      v[0] += std::copysign(std::sqrt(dot(v, v)), v[0]);
      reflection.factor = 2.0 / dot(v, v);
    }
    reflection.apply(w);
    reflections.push_back(std::move(reflection));
  }
  for (double& value : w.values.first(r * w.columns)) value *= 1.0 - scale;
  for (size_t k = r; k-- > 0;) reflections[k].apply(w);
}

}  // namespace

void change_base(std::span<double> w_NK, int64_t rows, int64_t columns, const LoraConfig& config) {
  const Matrix w{w_NK, static_cast<size_t>(rows), static_cast<size_t>(columns)};
  PLIMSOLL_CHECK(w.values.size() == w.rows * w.columns, "the values of a weight must be {} x {}, but are not",
                 rows, columns);
  PLIMSOLL_CHECK(config.r >= 1, "the rank of an adapter must be at least 1, but is {}", config.r);
  const auto r = static_cast<size_t>(config.rank_of(rows, columns));
  if (config.base_change == BaseChange::kPissa) remove_principal_part(w, r);
  if (config.base_change == BaseChange::kOlora) remove_first_columns(w, r, config.scale());
}

}  // namespace plimsoll
