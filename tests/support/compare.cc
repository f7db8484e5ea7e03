#include "tests/support/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <ostream>
#include <utility>

#include "base/check.h"
#include "base/philox.h"
#include "tests/support/fnv1a.h"

namespace plimsoll::test {
namespace {

constexpr int64_t kAlignment = 64;
constexpr std::byte kPoison{0xFF};
static_assert(GuardedBuffer::kGuardBytes % kAlignment == 0);

// Converts one of the four 32-bit random numbers of an element to a value in [0, 1).
double unit(const std::array<uint32_t, 4>& numbers, size_t lane) {
  return numbers[lane] * 0x1p-32;
}

std::array<uint32_t, 4> numbers_of(uint64_t seed, int64_t element) {
  return philox_block({.seed = seed, .step = 0, .site = 0}, static_cast<uint64_t>(element));
}

bool is_poison(ConstView view, int64_t i) {
  const auto bytes = static_cast<size_t>(dtype_bytes(view.dtype));
  const auto* first = static_cast<const std::byte*>(view.data) + static_cast<size_t>(i) * bytes;
  return std::all_of(first, first + bytes, [](std::byte b) { return b == kPoison; });
}

// Returns true if exactly one of two values is NaN or infinite, or if both are infinite with different signs.
bool finiteness_differs(double got, double want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) != std::isnan(want);
  if (std::isinf(got) || std::isinf(want)) return got != want;
  return false;
}

std::string place(int64_t index, const std::vector<int64_t>& shape) {
  if (shape.empty()) return fmt::format("[{}]", index);
  std::vector<int64_t> indices(shape.size());
  int64_t rest = index;
  for (size_t d = shape.size(); d-- > 0;) {
    indices[d] = shape[d] > 0 ? rest % shape[d] : 0;
    rest = shape[d] > 0 ? rest / shape[d] : 0;
  }
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

// Counts the elements that fail a comparison for one reason, and stores the index of the first of them.
struct Finding {
  int64_t count = 0;
  int64_t first = -1;
  void add(int64_t index) {
    if (count++ == 0) first = index;
  }
};

// Counts the comparisons of this process and their largest error, for take_compared().
class Tally {
 public:
  void add(const Comparison& within) {
    if (!within.ok()) return;
    const std::scoped_lock lock(mutex_);
    ++so_far_.num_within;
    if (within.error > 0.0) so_far_.worst_share = std::max(so_far_.worst_share, within.error / within.limit);
  }
  void add_bits() {
    const std::scoped_lock lock(mutex_);
    ++so_far_.num_bits;
  }
  Compared take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(so_far_, {});
  }

 private:
  std::mutex mutex_;
  Compared so_far_;
};

Tally& tally() {
  static Tally all;
  return all;
}

template <typename Want>
Comparison compare_elements(ConstView got, int64_t count, const Want& want, const Limit& limit) {
  PLIMSOLL_CHECK(limit.per_element.empty() || static_cast<int64_t>(limit.per_element.size()) == count,
                 "{} limits for {} elements", limit.per_element.size(), count);
  auto allowed_at = [&](int64_t i, double wanted) {
    const double own = limit.per_element.empty() ? 0.0 : limit.per_element[static_cast<size_t>(i)];
    return limit.absolute + limit.relative * std::abs(wanted) + own;
  };
  Finding unwritten, not_finite, too_far;
  Comparison result;
  result.count = count;
  int64_t num_zero = 0;
  double worst_ratio = -1.0;
  for (int64_t i = 0; i < count; ++i) {
    const double g = got.load(i);
    const double w = want(i);
    if (is_poison(got, i) && (is_floating(got.dtype) || g != w)) {
      unwritten.add(i);
      continue;
    }
    if (finiteness_differs(g, w)) {
      not_finite.add(i);
      continue;
    }
    if (g == 0.0) ++num_zero;
    const double error = (std::isfinite(g) && std::isfinite(w)) ? std::abs(g - w) : 0.0;
    const double allowed = allowed_at(i, w);
    // `!(error <= allowed)` is also true if the limit is NaN, which then counts as a failure.
    if (std::isfinite(w) && !(error <= allowed)) too_far.add(i);
    result.max_error = std::max(result.max_error, error);
    double ratio = std::numeric_limits<double>::infinity();
    if (error == 0.0)
      ratio = 0.0;
    else if (allowed > 0.0)
      ratio = error / allowed;
    if (ratio > worst_ratio) {
      worst_ratio = ratio;
      result.worst_index = i;
    }
  }
  auto fail = [&](Verdict verdict, const Finding& finding) {
    result.verdict = verdict;
    result.num_bad = finding.count;
    if (verdict != Verdict::kTooFar) result.worst_index = finding.first;
  };
  if (count == 0)
    result.verdict = Verdict::kNothingCompared;
  else if (unwritten.count > 0)
    fail(Verdict::kUnwritten, unwritten);
  else if (not_finite.count > 0)
    fail(Verdict::kNotFinite, not_finite);
  else if (limit.zeros == Zeros::kSuspicious && 2 * num_zero > count)
    result.verdict = Verdict::kMostlyZero;
  else if (too_far.count > 0)
    fail(Verdict::kTooFar, too_far);
  if (result.verdict == Verdict::kMostlyZero) result.num_bad = num_zero;
  if (result.worst_index >= 0) {
    result.got = got.load(result.worst_index);
    result.want = want(result.worst_index);
    result.error = std::abs(result.got - result.want);
    result.limit = allowed_at(result.worst_index, result.want);
  }
  result.message =
      fmt::format("{}: {} of {} elements; at {} got {:.9g}, want {:.9g}, off by {:.3g}, allowed {:.3g}",
                  verdict_name(result.verdict), result.num_bad, count, place(result.worst_index, limit.shape),
                  result.got, result.want, result.error, result.limit);
  tally().add(result);
  return result;
}

// Changes the verdict to kWroteOutside if a byte before or after the buffer's elements was overwritten. The verdict of a comparison without
// elements does not change.
Comparison with_guard(Comparison result, const GuardedBuffer& buffer) {
  const int64_t broken = buffer.broken_guard();
  if (broken != GuardedBuffer::kIntact && result.verdict != Verdict::kNothingCompared) {
    result.verdict = Verdict::kWroteOutside;
    result.message = fmt::format("{}: byte {} from the first element of {} bytes changed; else {}",
                                 verdict_name(result.verdict), broken, buffer.size_bytes(), result.message);
  }
  result.message =
      fmt::format("{} (seed {:#x}): {}", buffer.name(), tensor_seed(buffer.name()), result.message);
  return result;
}

}  // namespace

void GuardedBuffer::FreeBytes::operator()(std::byte* bytes) const {
  ::operator delete[](bytes, std::align_val_t{kAlignment});
}

GuardedBuffer::GuardedBuffer(std::string name, DType dtype, int64_t count)
    : name_(std::move(name)),
      dtype_(dtype),
      count_(count),
      total_bytes_(2 * kGuardBytes + count * dtype_bytes(dtype)) {
  PLIMSOLL_CHECK(count >= 0, "the number of elements must not be negative, but is {} for {}", count, name_);
  bytes_.reset(new (std::align_val_t{kAlignment}) std::byte[static_cast<size_t>(total_bytes_)]);
  data_ = bytes_.get() + kGuardBytes;
  poison();
}

View GuardedBuffer::view_from(int64_t first) {
  PLIMSOLL_CHECK(
      0 <= first && first <= count_,
      "the first element of a view must be from 0 to {1}, the number of elements, but is {0} in {2}", first,
      count_, name_);
  return {data_ + first * dtype_bytes(dtype_), dtype_};
}

void GuardedBuffer::poison() {
  std::memset(bytes_.get(), 0xFF, static_cast<size_t>(total_bytes_));
}

void GuardedBuffer::fill(double value) {
  for (int64_t i = 0; i < count_; ++i) view().store(i, value);
}

void GuardedBuffer::assign(std::span<const double> values) {
  PLIMSOLL_CHECK(static_cast<int64_t>(values.size()) == count_,
                 "{} values cannot be assigned to the {} elements of {}", values.size(), count_, name_);
  for (int64_t i = 0; i < count_; ++i) view().store(i, values[static_cast<size_t>(i)]);
}

std::vector<double> GuardedBuffer::to_doubles() const {
  std::vector<double> values(static_cast<size_t>(count_));
  for (int64_t i = 0; i < count_; ++i) values[static_cast<size_t>(i)] = load(i);
  return values;
}

int64_t GuardedBuffer::broken_guard() const {
  const std::byte* last = data_ + size_bytes();
  for (const std::byte* p = bytes_.get(); p < data_; ++p) {
    if (*p != kPoison) return p - data_;
  }
  for (const std::byte* p = last; p < last + kGuardBytes; ++p) {
    if (*p != kPoison) return p - data_;
  }
  return kIntact;
}

GuardedBuffer& GuardedBuffer::fill_uniform(double low, double high) {
  test::fill_uniform(view(), count_, name_, low, high);
  return *this;
}
GuardedBuffer& GuardedBuffer::fill_normal(double mean, double deviation) {
  test::fill_normal(view(), count_, name_, mean, deviation);
  return *this;
}
GuardedBuffer& GuardedBuffer::fill_small_integers(int magnitude) {
  test::fill_small_integers(view(), count_, name_, magnitude);
  return *this;
}
GuardedBuffer& GuardedBuffer::fill_indices(int64_t bound) {
  test::fill_indices(view(), count_, name_, bound);
  return *this;
}

uint64_t tensor_seed(std::string_view name) {
  return fnv1a(name);
}

void fill_uniform(View view, int64_t count, std::string_view name, double low, double high) {
  const uint64_t seed = tensor_seed(name);
  for (int64_t i = 0; i < count; ++i) view.store(i, low + (high - low) * unit(numbers_of(seed, i), 0));
}

void fill_normal(View view, int64_t count, std::string_view name, double mean, double deviation) {
  const uint64_t seed = tensor_seed(name);
  // The sum of four uniform values has mean 2 and standard deviation 1/sqrt(3). It is approximately normal
  // and needs no function of libm, so that every machine gets the same bits.
  constexpr double kSqrt3 = 1.7320508075688772;
  for (int64_t i = 0; i < count; ++i) {
    const auto n = numbers_of(seed, i);
    view.store(i, mean + deviation * kSqrt3 * (unit(n, 0) + unit(n, 1) + unit(n, 2) + unit(n, 3) - 2.0));
  }
}

void fill_small_integers(View view, int64_t count, std::string_view name, int magnitude) {
  PLIMSOLL_CHECK(magnitude >= 1, "the magnitude must be at least 1, but is {}", magnitude);
  const uint64_t seed = tensor_seed(name);
  for (int64_t i = 0; i < count; ++i) {
    view.store(i, std::floor(unit(numbers_of(seed, i), 0) * (2 * magnitude + 1)) - magnitude);
  }
}

void fill_indices(View view, int64_t count, std::string_view name, int64_t bound) {
  PLIMSOLL_CHECK(bound >= 1, "the bound must be at least 1, but is {}", bound);
  const uint64_t seed = tensor_seed(name);
  for (int64_t i = 0; i < count; ++i) {
    view.store(i, std::floor(unit(numbers_of(seed, i), 0) * static_cast<double>(bound)));
  }
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kNothingCompared:
      return "nothing compared";
    case Verdict::kWroteOutside:
      return "wrote outside";
    case Verdict::kUnwritten:
      return "unwritten";
    case Verdict::kNotFinite:
      return "not finite";
    case Verdict::kMostlyZero:
      return "mostly zero";
    case Verdict::kTooFar:
      return "too far";
    case Verdict::kBitsDiffer:
      return "bits differ";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& out, const Comparison& comparison) {
  return out << comparison.message;
}

Comparison compare(ConstView got, std::span<const double> want, const Limit& limit) {
  return compare_elements(
      got, static_cast<int64_t>(want.size()), [&](int64_t i) { return want[static_cast<size_t>(i)]; }, limit);
}

Comparison compare(ConstView got, ConstView want, int64_t count, const Limit& limit) {
  return compare_elements(
      got, count, [&](int64_t i) { return want.load(i); }, limit);
}

Comparison compare(const GuardedBuffer& got, std::span<const double> want, const Limit& limit) {
  PLIMSOLL_CHECK(static_cast<int64_t>(want.size()) == got.count(),
                 "{} expected values cannot be compared with the {} elements of {}", want.size(), got.count(),
                 got.name());
  return with_guard(compare(got.view(), want, limit), got);
}

Comparison compare(const GuardedBuffer& got, const GuardedBuffer& want, const Limit& limit) {
  PLIMSOLL_CHECK(want.count() == got.count(),
                 "{} expected values cannot be compared with the {} elements of {}", want.count(),
                 got.count(), got.name());
  return with_guard(compare(got.view(), want.view(), got.count(), limit), got);
}

Compared take_compared() {
  return tally().take();
}

Comparison compare_bits(ConstView got, ConstView want, int64_t count) {
  PLIMSOLL_CHECK(got.dtype == want.dtype,
                 "bits can only be compared between equal types, but these are {} and {}",
                 dtype_name(got.dtype), dtype_name(want.dtype));
  const auto bytes = static_cast<size_t>(dtype_bytes(got.dtype));
  Finding different;
  for (int64_t i = 0; i < count; ++i) {
    const size_t offset = static_cast<size_t>(i) * bytes;
    if (std::memcmp(static_cast<const std::byte*>(got.data) + offset,
                    static_cast<const std::byte*>(want.data) + offset, bytes) != 0) {
      different.add(i);
    }
  }
  Comparison result;
  result.count = count;
  result.num_bad = different.count;
  result.worst_index = different.first;
  if (count == 0) result.verdict = Verdict::kNothingCompared;
  if (different.count > 0) {
    result.verdict = Verdict::kBitsDiffer;
    result.got = got.load(different.first);
    result.want = want.load(different.first);
    result.error = result.max_error = std::abs(result.got - result.want);
  }
  result.message = fmt::format("{}: {} of {} elements; first at [{}] got {:.17g}, want {:.17g}",
                               verdict_name(result.verdict), result.num_bad, count, result.worst_index,
                               result.got, result.want);
  if (result.ok()) tally().add_bits();
  return result;
}

Comparison compare_bits(const GuardedBuffer& got, const GuardedBuffer& want) {
  PLIMSOLL_CHECK(want.count() == got.count(),
                 "{} expected values cannot be compared with the {} elements of {}", want.count(),
                 got.count(), got.name());
  return with_guard(compare_bits(got.view(), want.view(), got.count()), got);
}

}  // namespace plimsoll::test
