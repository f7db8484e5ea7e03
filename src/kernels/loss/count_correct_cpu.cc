#include "kernels/loss/count_correct.h"

#include <algorithm>

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/loss/loss_rows.h"

namespace plimsoll {
namespace {

// Returns true if no element of [begin, end) fulfils the comparison with `limit`. The elements of a block are compared without branches, so
// that the compiler can use SIMD vectors. The search ends after the first block with an element that fulfils it.
template <typename Load, typename Compare>
bool none_of(int64_t begin, int64_t end, const Load& load, const Compare& beats) {
  constexpr int64_t kBlock = 256;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t last = std::min(end, first + kBlock);
    int hits = 0;
    for (int64_t k = first; k < last; ++k) hits |= beats(load(k)) ? 1 : 0;
    if (hits != 0) return false;
  }
  return true;
}

template <typename Load>
bool is_correct(const Load& load, int32_t label, int64_t num_classes) {
  const float limit = load(label);
  if (limit != limit) return false;
  return none_of(0, label, load, [&](float x) { return x >= limit; }) &&
         none_of(label + 1, num_classes, load, [&](float x) { return x > limit; });
}

template <typename T, typename Widen>
int32_t count_rows(const CountCorrectArgs& args, const Widen& widen) {
  const T* logits = args.logits_BK.as<T>();
  const int32_t* labels = args.labels_B.as<int32_t>();
  check_labels(labels, args.num_rows, args.num_classes);
  return static_cast<int32_t>(sum_over_rows(args.num_rows, args.num_classes, [&](int64_t b) {
    if (labels[b] < 0) return 0.0;
    const T* row = logits + b * args.num_classes;
    return is_correct([&](int64_t k) { return widen(row[k]); }, labels[b], args.num_classes) ? 1.0 : 0.0;
  }));
}

}  // namespace

void count_correct_cpu(const CountCorrectArgs& args) {
  const int32_t count = args.logits_BK.dtype == DType::kBF16
                            ? count_rows<BF16>(args, [](BF16 x) { return bf16_to_f32(x.bits); })
                            : count_rows<float>(args, [](float x) { return x; });
  store_loss(args.count, count, args.accumulate);
}

}  // namespace plimsoll
