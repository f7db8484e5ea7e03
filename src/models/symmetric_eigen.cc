#include "models/symmetric_eigen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "models/dense_rows.h"

namespace plimsoll {
namespace {

using internal::add_scaled;
using internal::dot;

// A tridiagonal matrix T = Q^T A Q, and the reflections I - factors[k] v_k v_k^T whose product is Q.
struct Tridiagonal {
  std::vector<double> diagonal;
  // The elements next to the diagonal: below[i] is in row i + 1 and column i; the last one is 0.
  std::vector<double> below;
  // The vectors v_k, at index k. Reflection k changes only elements from k + 1 on.
  std::vector<std::vector<double>> reflections;
  std::vector<double> factors;
};

Tridiagonal reduce(std::vector<double> a, size_t n) {
  Tridiagonal t{
      .diagonal = std::vector<double>(n), .below = std::vector<double>(n), .reflections = {}, .factors = {}};
  const auto row = [&](size_t i, size_t from) { return std::span(a).subspan(i * n + from, n - from); };
  for (size_t k = 0; k + 1 < n; ++k) {
    t.diagonal[k] = a[k * n + k];
    const std::span<double> x = row(k, k + 1);
    const double norm = std::sqrt(dot(x, x));
    const double tail = std::sqrt(dot(x.subspan(1), x.subspan(1)));
    std::vector<double> v(x.begin(), x.end());
    double factor = 0.0;
    t.below[k] = x[0];
    if (tail > 0.0) {
      t.below[k] = x[0] > 0.0 ? -norm : norm;
      v[0] -= t.below[k];
      factor = 2.0 / dot(v, v);
      // Computes A <- (I - f v v^T) A (I - f v v^T) as a symmetric update of rank two.
      std::vector<double> w(v.size());
      for (size_t i = 0; i < v.size(); ++i) w[i] = factor * dot(row(k + 1 + i, k + 1), v);
      add_scaled(w, -0.5 * factor * dot(w, v), v);
      for (size_t i = 0; i < v.size(); ++i) {
        const std::span<double> to = row(k + 1 + i, k + 1);
        for (size_t j = 0; j < v.size(); ++j) to[j] -= v[i] * w[j] + w[i] * v[j];
      }
    }
    t.reflections.push_back(std::move(v));
    t.factors.push_back(factor);
  }
  t.diagonal[n - 1] = a[n * n - 1];
  return t;
}

// Diagonalizes the tridiagonal matrix T, where d is its diagonal and e contains the elements next to it. z is the identity at the start. At
// the end d contains the eigenvalues, and row i of z is the eigenvector of T for the eigenvalue d[i].
void diagonalize(std::vector<double>& d, std::vector<double>& e, std::vector<double>& z, size_t n) {
  // Largest number of steps per eigenvalue; EISPACK allows 30, and usually fewer than 2 are needed.
  constexpr int kMostSteps = 60;
  const double eps = std::numeric_limits<double>::epsilon();
  // The tolerance is relative to the whole matrix, because the smallest eigenvalues of A^T A need no higher accuracy.
  double size = 0.0;
  for (size_t i = 0; i < n; ++i) size = std::max(size, std::abs(d[i]) + std::abs(e[i]));
  for (size_t l = 0; l < n; ++l) {
    for (int step = 0; step < kMostSteps; ++step) {
      size_t m = l;
      while (m + 1 < n && std::abs(e[m]) > eps * size) ++m;
      if (m == l) break;
      double g = (d[l + 1] - d[l]) / (2.0 * e[l]);
      double r = std::hypot(g, 1.0);
      g = d[m] - d[l] + e[l] / (g + std::copysign(r, g));
      double s = 1.0;
      double c = 1.0;
      double p = 0.0;
      bool is_split = false;
      for (size_t i = m; i-- > l;) {
        const double f = s * e[i];
        const double b = c * e[i];
        r = std::hypot(f, g);
        e[i + 1] = r;
        if (r == 0.0) {
          d[i + 1] -= p;
          e[m] = 0.0;
          is_split = true;
          break;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2.0 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        double* const lower = z.data() + i * n;
        double* const upper = lower + n;
        for (size_t k = 0; k < n; ++k) {
          const double u = upper[k];
          upper[k] = s * lower[k] + c * u;
          lower[k] = c * lower[k] - s * u;
        }
      }
      if (is_split) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0.0;
    }
  }
}

}  // namespace

SymmetricEigen largest_eigenpairs(std::vector<double> a_NN, int64_t n, int64_t count) {
  const auto size = static_cast<size_t>(n);
  PLIMSOLL_CHECK(n >= 1 && count >= 1 && count <= n && a_NN.size() == size * size,
                 "the matrix must be square with {} rows, and the number of eigenpairs must be between 1 and "
                 "the number of rows",
                 n);
  Tridiagonal t = reduce(std::move(a_NN), size);
  std::vector<double> z(size * size, 0.0);
  for (size_t i = 0; i < size; ++i) z[i * size + i] = 1.0;
  diagonalize(t.diagonal, t.below, z, size);
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return t.diagonal[a] > t.diagonal[b]; });
  SymmetricEigen result;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const std::span<double> vector = std::span(z).subspan(order[i] * size, size);
    for (size_t k = t.reflections.size(); k-- > 0;) {
      const std::span<double> part = vector.subspan(k + 1);
      add_scaled(part, -t.factors[k] * dot(t.reflections[k], part), t.reflections[k]);
    }
    result.values.push_back(t.diagonal[order[i]]);
    result.vectors.insert(result.vectors.end(), vector.begin(), vector.end());
  }
  return result;
}

}  // namespace plimsoll
