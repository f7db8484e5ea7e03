// Tensors for the tests of Adafactor: owned buffers with the same values for the reference and the fast kernels, and the comparison with
// the error bound of the contract. For tests only; not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/optimizer/adafactor.h"
#include "tests/support/compare.h"

namespace plimsoll::test {

// The shape of a tensor: a matrix, or a vector (one row). The tests use fewer elements than SIMD lanes, about one tile, several tiles, row
// lengths that are not multiples of 4, one row, and one column.
struct AdafactorShape {
  int64_t rows, columns;
  bool is_matrix;
};
inline const std::vector<AdafactorShape> kAdafactorShapes = {
    {1, 1, false},   {1, 7, false},   {1, 1024, false},  {1, 1025, false},  {1, 5000, false},
    {3, 5, true},    {128, 64, true}, {129, 1027, true}, {130, 1028, true}, {1, 40, true},
    {2, 1024, true}, {1000, 3, true}, {257, 1, true}};

class AdafactorList {
 public:
  AdafactorList(const std::string& name, DType dtype, const std::vector<AdafactorShape>& shapes)
      : shapes_(shapes) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      const AdafactorShape& shape = shapes[i];
      const int64_t count = shape.rows * shape.columns;
      const auto make = [&](const char* part, int64_t n) {
        buffers_.push_back(std::make_unique<GuardedBuffer>(name + "/" + part + std::to_string(i), dtype, n));
      };
      make("param", count);
      make("grad", count);
      make("row", shape.is_matrix ? shape.rows : 1);
      make("column", shape.columns);
      make("m", count);
      tensors_.push_back({.param = param(i).view(),
                          .grad = grad(i).view(),
                          .m = m(i).view(),
                          .rows = shape.rows,
                          .columns = shape.columns});
      if (shape.is_matrix) {
        tensors_.back().row = row(i).view();
        tensors_.back().column = column(i).view();
      } else {
        tensors_.back().v = column(i).view();
      }
    }
  }
  size_t size() const { return tensors_.size(); }
  const AdafactorShape& shape(size_t i) const { return shapes_[i]; }
  const std::vector<AdafactorTensor>& tensors() const { return tensors_; }
  std::vector<AdafactorTensor>& mutable_tensors() { return tensors_; }
  GuardedBuffer& param(size_t i) { return *buffers_[5 * i]; }
  GuardedBuffer& grad(size_t i) { return *buffers_[5 * i + 1]; }
  GuardedBuffer& row(size_t i) { return *buffers_[5 * i + 2]; }
  GuardedBuffer& column(size_t i) {
    return *buffers_[5 * i + 3];
  }  // the column state or, for a vector, its state v
  GuardedBuffer& m(size_t i) { return *buffers_[5 * i + 4]; }

  int64_t scratch_bytes() const {
    int64_t bytes = 0;
    for (const AdafactorShape& s : shapes_) bytes += adafactor_scratch(s.rows, s.columns, s.is_matrix).bytes;
    return bytes;
  }
  // States are means of squares, so their initial values are positive.
  void fill() {
    for (size_t i = 0; i < size(); ++i) {
      param(i).fill_normal();
      grad(i).fill_normal();
      row(i).fill_uniform(0.1, 2.0);
      column(i).fill_uniform(0.1, 2.0);
      m(i).fill_normal(0.0, 1e-3);
    }
  }
  void copy_from(AdafactorList& other) {
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i]->assign(other.buffers_[i]->to_doubles());
  }

 private:
  std::vector<AdafactorShape> shapes_;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
  std::vector<AdafactorTensor> tensors_;
};

// Compares one update of `start` by the reference (`want`) and by a kernel (`got`), within the error bound that adafactor.h states.
inline void expect_adafactor_within(AdafactorList& start, AdafactorList& want, AdafactorList& got,
                                    const AdafactorArgs& args) {
  for (size_t i = 0; i < want.size(); ++i) {
    const AdafactorShape& shape = want.shape(i);
    const AdafactorErrorBound bound = adafactor_error_bound(shape.rows, shape.columns);
    const auto expect_states = [&](GuardedBuffer& a, GuardedBuffer& b, double relative, const char* what) {
      std::vector<double> limits;
      for (int64_t j = 0; j < b.count(); ++j) limits.push_back(relative * std::fabs(b.load(j)));
      const auto result = compare(a, b, {.per_element = limits});
      EXPECT_TRUE(result.ok()) << "tensor " << i << " " << what << " " << result;
    };
    if (shape.is_matrix) expect_states(got.row(i), want.row(i), bound.row, "row");
    expect_states(got.column(i), want.column(i), shape.is_matrix ? bound.column : bound.v, "column");
    double square = 0.0;
    for (int64_t j = 0; j < start.param(i).count(); ++j) square += std::pow(start.param(i).load(j), 2);
    const double rate = adafactor_rate(args, std::sqrt(square / static_cast<double>(start.param(i).count())));
    std::vector<double> param_limits, m_limits;
    for (int64_t j = 0; j < start.param(i).count(); ++j) {
      // The relative error bound applies to u (adafactor.h), the step that an element would make without momentum. The first moment is
      // exact before the update, and the update rounds it three times.
      const double p = start.param(i).load(j);
      const double decay = rate * args.weight_decay * std::fabs(p);
      const double change = std::fabs(want.param(i).load(j) - p) + 2.0 * decay;
      const double m = args.beta1 ? std::fabs(start.m(i).load(j)) : 0.0;
      // The change of the parameter is beta1 m + (1 - beta1) u, so the step |u| without momentum is at most (change + m) / (1 - beta1). The
      // error bounds contain (1 - beta1) |u|.
      const double step = args.beta1 ? (change + m) : change;
      param_limits.push_back(bound.param(p, step) + 4.0 * 0x1p-24 * step);
      m_limits.push_back(bound.step * step + 4.0 * 0x1p-24 * step);
    }
    const auto param = compare(got.param(i), want.param(i), {.per_element = param_limits});
    EXPECT_TRUE(param.ok()) << "tensor " << i << " param " << param;
    if (!args.beta1) continue;
    const auto m = compare(got.m(i), want.m(i), {.per_element = m_limits});
    EXPECT_TRUE(m.ok()) << "tensor " << i << " m " << m;
  }
}

}  // namespace plimsoll::test
