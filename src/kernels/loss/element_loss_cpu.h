// CPU code that bce_with_logits and mse share, whose losses are sums over elements: the loops over the rows. Rows after the first
// num_real_rows rows contain no sample; they are not part of the loss and get gradients of zero. Thread-safe: no state.
#pragma once

#include <algorithm>

#include "kernels/loss/loss_rows.h"

namespace plimsoll {

// Computes a loss. row(x, labels, K) must return the sum of the terms of a row of K elements.
template <typename Args, typename Row>
void element_loss_fwd_cpu(const Args& args, Row* row) {
  PLIMSOLL_CHECK(args.num_real_rows <= args.num_rows,
                 "the number of rows that are not padding is {}, but there are only {} rows",
                 args.num_real_rows, args.num_rows);
  const int64_t K = args.num_classes;
  const float* x = args.x_BK.template as<float>();
  const float* labels = args.labels_BK.template as<float>();
  const double sum =
      sum_over_rows(args.num_real_rows, K, [&](int64_t b) { return row(x + b * K, labels + b * K, K); });
  store_loss(args.loss, sum / (args.denominator.load(0) * static_cast<double>(K)), args.accumulate);
}

// Computes the gradient of a loss. `factor` is the constant factor of the derivative of an element's term, for example 2 for a square.
// row(x, labels, d_x, K, scale) must multiply `scale`, which contains this factor, by the rest of the derivative of each element.
template <typename Args, typename Row>
void element_loss_bwd_cpu(const Args& args, double factor, Row* row) {
  PLIMSOLL_CHECK(args.num_real_rows <= args.num_rows,
                 "the number of rows that are not padding is {}, but there are only {} rows",
                 args.num_real_rows, args.num_rows);
  const int64_t K = args.num_classes;
  const float* x = args.x_BK.template as<float>();
  const float* labels = args.labels_BK.template as<float>();
  float* d_x = args.d_x_BK.template as<float>();
  const double scale = factor * args.d_loss.load(0) / (args.denominator.load(0) * static_cast<double>(K));
  for_each_row(args.num_rows, K, [&](int64_t b) {
    if (b < args.num_real_rows) {
      row(x + b * K, labels + b * K, d_x + b * K, K, scale);
    } else {
      std::fill(d_x + b * K, d_x + (b + 1) * K, 0.0f);
    }
  });
}

}  // namespace plimsoll
