// Test cases of root-mean-square normalization: the operands, the results of the references in double, and the bounds of the
// contract. For tests only. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "kernels/layer_norm/rms_norm.h"

namespace plimsoll::test {

inline constexpr double kRmsEps = 1e-6;

// Returns the sizes of the test cases: norms of whole rows, and norms of the heads of q and k in rows that also contain v.
inline std::vector<RmsNormDims> norm_dims() {
  std::vector<RmsNormDims> all;
  for (const auto& [T, C] : kernel_shapes()) all.push_back({.T = T, .N = C, .C = C});
  all.push_back({.T = 7, .N = 6 * 8, .C = 8, .H = 3, .G = 1});
  all.push_back({.T = 33, .N = 40 * 16, .C = 16, .H = 4, .G = 32});
  all.push_back({.T = 1, .N = 5 * 17, .C = 17, .H = 2, .G = 2});
  all.push_back({.T = 130, .N = 128 * 12 + 5, .C = 128, .H = 8, .G = 2});
  return all;
}

// The operands of one case and the results of the references in double.
struct RmsCase {
  RmsCase(const RmsNormDims& d, DType activations, DType gains)
      : dims(d),
        name(tensor_name("", {d.T, d.N}, activations) + std::to_string(d.C) + dtype_name(gains).data()),
        dtype(activations),
        vectors(d.T * (d.H + d.G)),
        x(name + "x", activations, d.T * d.N),
        d_y(name + "d_y", activations, d.T * d.N),
        gain(name + "gain", gains, d.C),
        second_gain(name + "second", gains, d.C),
        rstd(name + "rstd", DType::kF32, vectors),
        want_y("want y", DType::kF64, d.T * d.N),
        want_rstd("want rstd", DType::kF64, vectors),
        want_d_x("want d_x", DType::kF64, d.T * d.N),
        want_gain("want d_gain", DType::kF64, d.C),
        want_second("want d_second", DType::kF64, d.C) {
    x.fill_normal(0.3, 2.0);
    d_y.fill_normal();
    gain.fill_normal(1.0, 0.2);
    second_gain.fill_normal(1.0, 0.2);
    rms_norm_fwd_ref(fwd(want_y, want_rstd));
    for (int64_t i = 0; i < vectors; ++i) rstd.view().store(i, want_rstd.load(i));
    rms_norm_bwd_ref(bwd(want_d_x, want_gain, want_second, {}));
  }

  View second(GuardedBuffer& buffer) const { return dims.G > 0 ? buffer.view() : View{}; }
  RmsNormFwdArgs fwd(GuardedBuffer& y, GuardedBuffer& rstds) {
    return {dims, x.view(), gain.view(), second(second_gain), y.view(), rstds.view(), kRmsEps};
  }
  RmsNormBwdArgs bwd(GuardedBuffer& d_x, GuardedBuffer& d_gain, GuardedBuffer& d_second,
                     const View& scratch) {
    return {dims,        d_y.view(), x.view(),      gain.view(),      second(second_gain),
            rstd.view(), d_x.view(), d_gain.view(), second(d_second), scratch};
  }

  // Returns the gain that applies to an element, or null if the element is only copied.
  const GuardedBuffer* gain_of(int64_t at) const {
    const int64_t vector = at % dims.N / dims.C;
    return vector >= dims.H + dims.G ? nullptr : vector < dims.H ? &gain : &second_gain;
  }
  int64_t vector_of(int64_t at) const { return at / dims.N * (dims.H + dims.G) + at % dims.N / dims.C; }

  std::vector<double> y_bounds() const {
    std::vector<double> bounds;
    for (int64_t at = 0; at < dims.T * dims.N; ++at) {
      bounds.push_back(gain_of(at) == nullptr ? 0.0
                                              : rms_norm_fwd_error_bound(want_y.load(at), dims.C, dtype));
    }
    return bounds;
  }
  std::vector<double> rstd_bounds() const {
    std::vector<double> bounds;
    for (int64_t i = 0; i < vectors; ++i)
      bounds.push_back(rms_rstd_relative_error(dims.C) * want_rstd.load(i));
    return bounds;
  }
  double g(int64_t at) const { return d_y.load(at) * gain_of(at)->load(at % dims.N % dims.C); }
  double x_hat(int64_t at) const { return x.load(at) * rstd.load(vector_of(at)); }
  std::vector<double> d_x_bounds() const {
    std::vector<double> mean_abs(static_cast<size_t>(vectors)), bounds;
    for (int64_t at = 0; at < dims.T * dims.N; ++at) {
      if (gain_of(at) == nullptr) continue;
      mean_abs[static_cast<size_t>(vector_of(at))] +=
          std::abs(g(at) * x_hat(at)) / static_cast<double>(dims.C);
    }
    for (int64_t at = 0; at < dims.T * dims.N; ++at) {
      bounds.push_back(gain_of(at) == nullptr
                           ? 0.0
                           : rms_norm_bwd_error_bound(rstd.load(vector_of(at)), g(at), x_hat(at),
                                                      mean_abs[static_cast<size_t>(vector_of(at))],
                                                      want_d_x.load(at), dims.C, dtype));
    }
    return bounds;
  }
  // Returns the error bounds of the elements of d_gain or d_second_gain. Each term of a sum is rounded three times.
  std::vector<double> gain_bounds(const GuardedBuffer& which, double depth) const {
    std::vector<double> bounds(static_cast<size_t>(dims.C));
    for (int64_t at = 0; at < dims.T * dims.N; ++at) {
      if (gain_of(at) != &which) continue;
      bounds[static_cast<size_t>(at % dims.N % dims.C)] +=
          (depth + 3.0) * kRoundoffF32 * std::abs(d_y.load(at) * x_hat(at));
    }
    return bounds;
  }

  RmsNormDims dims;
  std::string name;
  DType dtype;
  int64_t vectors;
  GuardedBuffer x, d_y, gain, second_gain, rstd, want_y, want_rstd, want_d_x, want_gain, want_second;
};

}  // namespace plimsoll::test
