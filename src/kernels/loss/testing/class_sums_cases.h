// Test cases of losses whose classes are divided among ranks, for class_sums.h on a CPU and on a GPU. Not thread-safe.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "kernels/loss/class_sums.h"
#include "tests/support/compare.h"

namespace plimsoll::testing {

using test::GuardedBuffer;

// The division of classes among `ranks` ranks with `columns` columns each. If there are more columns than classes, the last ranks have
// padding, or only padding.
struct Division {
  int64_t rows, classes, ranks, columns;
};
inline constexpr Division kDivisions[] = {{1, 2, 2, 1},    {7, 37, 2, 24},     {7, 37, 4, 16},
                                          {5, 33, 3, 11},  {64, 1000, 4, 256}, {6, 50257, 2, 25136},
                                          {900, 64, 2, 32}};

struct Variant {
  double smoothing = 0.0;
  double z_coefficient = 0.0;
  bool counts = false;
};
inline constexpr Variant kVariants[] = {
    {}, {.smoothing = 0.1}, {.z_coefficient = 1e-2}, {.smoothing = 0.1, .counts = true}};

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The logits of all classes, and the logits of each rank, in which padding and rows without a label are NaN. Every third row has no label.
// In every fourth row the label has the largest logit, and the last class has an equal one, which must not count as larger.
struct Classes {
  Classes(const Division& d, const Variant& v, DType dtype)
      : division(d),
        variant(v),
        columns{.ranks = d.ranks, .smooths = v.smoothing > 0, .counts = v.counts},
        name(fmt::format("class_sums_{}x{}_{}", d.rows, d.classes, dtype_name(dtype))),
        whole(name + "/logits", dtype, d.rows * d.classes),
        labels(name + "/labels", DType::kI32, d.rows) {
    whole.fill_normal(0.0, 3.0);
    labels.fill_indices(d.classes);
    for (int64_t b = 0; b < d.rows; ++b) {
      if (b % 3 == 2) labels.view().store(b, -100.0);
      const auto label = static_cast<int64_t>(labels.load(b));
      if (label >= 0) denominator += 1.0f;
      if (label < 0 || b % 4 != 0) continue;
      whole.view().store(b * d.classes + label, 16.0);
      whole.view().store((b + 1) * d.classes - 1, 16.0);
    }
    for (int64_t r = 0; r < d.ranks; ++r) {
      GuardedBuffer& part =
          parts.emplace_back(name + "/part", dtype, std::max<int64_t>(1, d.rows * d.columns));
      const ClassShare share = class_share(r, d.columns, d.classes);
      for (int64_t b = 0; b < d.rows; ++b) {
        for (int64_t k = 0; k < d.columns; ++k) {
          const bool is_read = k < share.count && labels.load(b) >= 0.0;
          part.view().store(b * d.columns + k, is_read ? whole.load(b * d.classes + share.first + k) : kNan);
        }
      }
    }
  }

  ClassSumsArgs sums_args(int64_t rank, View sums) {
    return {.logits_BK = parts[static_cast<size_t>(rank)].view(),
            .labels_B = labels.view(),
            .sums_BS = sums,
            .num_rows = division.rows,
            .row_stride = division.columns,
            .share = class_share(rank, division.columns, division.classes),
            .columns = columns};
  }
  ClassSumsBwdArgs bwd_args(int64_t rank, ConstView d_sums, View d_logits) {
    return {.logits_BK = parts[static_cast<size_t>(rank)].view(),
            .labels_B = labels.view(),
            .d_sums_BS = d_sums,
            .d_logits_BK = d_logits,
            .num_rows = division.rows,
            .row_stride = division.columns,
            .num_columns = division.columns,
            .share = class_share(rank, division.columns, division.classes),
            .columns = columns};
  }
  ClassSumsLossArgs loss_args(ConstView sums, View loss, View z_loss, View num_correct) {
    return {.sums_BS = sums,
            .labels_B = labels.view(),
            .denominator = {&denominator, DType::kF32},
            .loss = loss,
            .z_loss = z_loss,
            .num_correct = variant.counts ? num_correct : View(),
            .num_rows = division.rows,
            .num_classes = division.classes,
            .rank_classes = division.columns,
            .label_smoothing = variant.smoothing,
            .z_coefficient = variant.z_coefficient,
            .columns = columns};
  }
  ClassSumsLossBwdArgs loss_bwd_args(ConstView sums, View d_sums) {
    return {.sums_BS = sums,
            .labels_B = labels.view(),
            .denominator = {&denominator, DType::kF32},
            .d_loss = {&d_loss, DType::kF64},
            .d_sums_BS = d_sums,
            .num_rows = division.rows,
            .num_classes = division.classes,
            .label_smoothing = variant.smoothing,
            .z_coefficient = variant.z_coefficient,
            .columns = columns};
  }
  int64_t num_sums() const { return division.rows * columns.size(); }

  // Calls a kernel for each rank, and returns the sum of the results over the ranks.
  template <typename Kernel>
  GuardedBuffer sums_of_ranks(const Kernel& kernel, DType dtype) {
    GuardedBuffer all(name + "/sums", dtype, num_sums());
    all.fill(0.0);
    for (int64_t r = 0; r < division.ranks; ++r) {
      GuardedBuffer own(name + "/sums of a rank", dtype, num_sums());
      kernel(sums_args(r, own.view()));
      for (int64_t i = 0; i < num_sums(); ++i) all.view().store(i, all.load(i) + own.load(i));
    }
    return all;
  }

  Division division;
  Variant variant;
  ClassColumns columns;
  std::string name;
  GuardedBuffer whole, labels;
  std::vector<GuardedBuffer> parts;
  float denominator = 0.0f;
  double d_loss = 1.5;
};

template <typename Body>
void for_each_case(DType dtype, const Body& body) {
  for (const Division& division : kDivisions) {
    for (const Variant& variant : kVariants) {
      Classes classes(division, variant, dtype);
      SCOPED_TRACE(fmt::format("{} {} ranks, smoothing {}, z {}", classes.name, division.ranks,
                               variant.smoothing, variant.z_coefficient));
      body(classes);
    }
  }
}

}  // namespace plimsoll::testing
