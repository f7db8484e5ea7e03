#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/loss/loss_rows.h"
#include "kernels/loss/top_logits.h"

namespace plimsoll {
namespace {

template <typename Number>
struct Entry {
  Number value = 0;
  int32_t id = 0;
};
template <typename Number>
bool goes_first(const Entry<Number>& a, const Entry<Number>& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

// Writes the results of one row. load(v) must return the logit of class v.
template <typename Number, typename Load>
void top_of_row(const TopLogitsArgs& args, int64_t row, const Load& load) {
  const auto k = static_cast<size_t>(args.k);
  // The largest logits so far, as a heap whose first element is the smallest of them.
  std::array<Entry<Number>, static_cast<size_t>(kMaxTopLogits)> heap;
  size_t size = 0;
  bool has_nan = false;
  for (int64_t v = 0; v < args.num_classes; ++v) {
    const Entry<Number> entry{load(v), static_cast<int32_t>(v)};
    if (std::isnan(entry.value)) {
      has_nan = true;
    } else if (entry.value == -std::numeric_limits<Number>::infinity()) {
      continue;
    } else if (size < k) {
      heap[size++] = entry;
      std::push_heap(heap.begin(), heap.begin() + size, goes_first<Number>);
    } else if (goes_first(entry, heap[0])) {
      std::pop_heap(heap.begin(), heap.begin() + k, goes_first<Number>);
      heap[k - 1] = entry;
      std::push_heap(heap.begin(), heap.begin() + k, goes_first<Number>);
    }
  }
  std::sort_heap(heap.begin(), heap.begin() + size, goes_first<Number>);
  std::fill(heap.begin() + size, heap.begin() + k,
            Entry<Number>{-std::numeric_limits<Number>::infinity(), 0});
  for (size_t i = 0; i < k; ++i) {
    args.values_BK.store(row * args.k + static_cast<int64_t>(i), static_cast<double>(heap[i].value));
    args.ids_BK.as<int32_t>()[row * args.k + static_cast<int64_t>(i)] = heap[i].id;
  }
  const auto largest = static_cast<double>(heap[0].value);
  double log_sum = largest;
  if (has_nan || largest == std::numeric_limits<double>::infinity()) {
    log_sum = std::numeric_limits<double>::quiet_NaN();
  } else if (largest > -std::numeric_limits<double>::infinity()) {
    double sum = 0.0;
    for (int64_t v = 0; v < args.num_classes; ++v) sum += std::exp(static_cast<double>(load(v)) - largest);
    log_sum = largest + std::log(sum);
  }
  args.log_sum_B.as<double>()[row] = log_sum;
}

void check(const TopLogitsArgs& args) {
  PLIMSOLL_CHECK(
      args.k >= 1 && args.k <= kMaxTopLogits && args.num_classes >= args.k,
      "top_logits selects 1 to {} logits, and at most all of a row, but the {} largest of {} are requested",
      kMaxTopLogits, args.k, args.num_classes);
}

}  // namespace

void top_logits_ref(const TopLogitsArgs& args) {
  check(args);
  for (int64_t b = 0; b < args.num_rows; ++b)
    top_of_row<double>(args, b, [&](int64_t v) { return args.logits_BV.load(b * args.num_classes + v); });
}

void top_logits_cpu(const TopLogitsArgs& args) {
  check(args);
  for_each_row(args.num_rows, args.num_classes, [&](int64_t b) {
    const int64_t first = b * args.num_classes;
    if (args.logits_BV.dtype == DType::kBF16) {
      const BF16* x = args.logits_BV.as<BF16>() + first;
      top_of_row<float>(args, b, [x](int64_t v) { return bf16_to_f32(x[v].bits); });
    } else {
      const float* x = args.logits_BV.as<float>() + first;
      top_of_row<float>(args, b, [x](int64_t v) { return x[v]; });
    }
  });
}

}  // namespace plimsoll
