// What every numeric test trusts: buffers that show what a kernel did not write or should not have written,
// one comparison with a verdict for each way to be wrong, and inputs that are the same numbers on every
// machine.
//
// This is not a test framework: it asserts nothing. A test writes EXPECT_TRUE(result.ok()) << result.
//
// Thread-safety: distinct buffers may be used from distinct threads; the functions are pure but for what they
// fill and for the figures of take_compared(). Ownership: a GuardedBuffer owns its bytes; views into it die
// with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/view.h"

namespace plimsoll::test {

// Memory for one tensor, aligned to 64 bytes. Invariants:
//  1. A fresh buffer holds 0xFF in every byte: a NaN in every floating type, -1 or 255 in the integers. Never
//     zeros.
//  2. Guard zones of kGuardBytes lie directly before the first and directly after the last element, without
//     padding.
class GuardedBuffer {
 public:
  static constexpr int64_t kGuardBytes = 1024;

  // `name` is "test name/tensor name": it appears in messages and seeds the fill functions below. Requires:
  // count >= 0.
  GuardedBuffer(std::string name, DType dtype, int64_t count);

  View view() { return {data_, dtype_}; }
  ConstView view() const { return {data_, dtype_}; }
  // View of the elements from `first` on. Requires: 0 <= first <= count().
  View view_from(int64_t first);
  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  int64_t count() const { return count_; }
  int64_t size_bytes() const { return count_ * dtype_bytes(dtype_); }
  double load(int64_t i) const { return view().load(i); }

  // Makes the buffer fresh again, guard zones included.
  void poison();
  // Every element becomes the value.
  void fill(double value);
  // Element i becomes values[i]. Requires: values.size() == count().
  void assign(std::span<const double> values);
  // All elements as doubles.
  std::vector<double> to_doubles() const;

  // Offset in bytes, from the first element, of a changed guard byte; nothing written outside gives kIntact.
  static constexpr int64_t kIntact = INT64_MIN;
  int64_t broken_guard() const;

  // Uniform in [low, high).
  GuardedBuffer& fill_uniform(double low = -1.0, double high = 1.0);
  // Bell-shaped with this mean and standard deviation, at most 3.47 deviations from the mean.
  GuardedBuffer& fill_normal(double mean = 0.0, double deviation = 1.0);
  // Integers in [-magnitude, magnitude]. Sums of products of them in fp32 are exact in any order while
  // num_terms * magnitude^2 <= 2^24, and each value is exact in bf16 for magnitude <= 256.
  GuardedBuffer& fill_small_integers(int magnitude = 4);
  // Integers in [0, bound), for ids and labels. Requires: bound >= 1.
  GuardedBuffer& fill_indices(int64_t bound);

 private:
  struct FreeBytes {
    void operator()(std::byte* bytes) const;
  };
  std::string name_;
  DType dtype_;
  int64_t count_;
  int64_t total_bytes_;
  std::unique_ptr<std::byte[], FreeBytes> bytes_;
  std::byte* data_;
};

// The seed of a tensor: a hash of "test name/tensor name" (FNV-1a, 64 bits).
uint64_t tensor_seed(std::string_view name);

// The same inputs for memory that is not a GuardedBuffer.
void fill_uniform(View view, int64_t count, std::string_view name, double low = -1.0, double high = 1.0);
void fill_normal(View view, int64_t count, std::string_view name, double mean = 0.0, double deviation = 1.0);
void fill_small_integers(View view, int64_t count, std::string_view name, int magnitude = 4);
void fill_indices(View view, int64_t count, std::string_view name, int64_t bound);

enum class Zeros : uint8_t { kSuspicious, kExpected };

// How far an element may be off: |got - want| <= absolute + relative * |want| + per_element[i].
struct Limit {
  double absolute = 0.0;
  double relative = 0.0;
  // Empty, or one limit for each element (an error bound that depends on the operands).
  std::span<const double> per_element = {};
  // More than half of the results being zero is a failure of its own, even where zeros are wanted, unless
  // expected.
  Zeros zeros = Zeros::kSuspicious;
  // Empty, or the tensor's shape: messages then show indices in every dimension.
  std::vector<int64_t> shape = {};
};

enum class Verdict : uint8_t {
  kOk,
  kNothingCompared,  // zero elements
  kWroteOutside,     // a guard zone changed
  kUnwritten,        // poison where a value is wanted: not written, or computed from memory that was not
  kNotFinite,        // NaN or infinity in one and not in the other, or infinities of different sign
  kMostlyZero,       // more than half of the results are zero
  kTooFar,           // beyond the limit
  kBitsDiffer,       // compare_bits only
};
std::string_view verdict_name(Verdict verdict);

struct Comparison {
  Verdict verdict = Verdict::kOk;
  int64_t count = 0;
  int64_t num_bad = 0;  // elements that fail in the way of the verdict
  int64_t worst_index =
      -1;  // the element with the largest error over its limit; the first failing one for other verdicts
  double got = 0.0;
  double want = 0.0;
  double error = 0.0;      // |got - want| at worst_index
  double limit = 0.0;      // what was allowed there
  double max_error = 0.0;  // over all elements, passed or not (for tightening limits)
  std::string message;

  bool ok() const { return verdict == Verdict::kOk; }
};
std::ostream& operator<<(std::ostream& out, const Comparison& comparison);

// The first verdict that applies, in the order of the enum. NaN equals NaN; equal infinities are equal.
// A poisoned element is unwritten even where NaN is wanted; in integers only where the wanted value is
// another.
Comparison compare(ConstView got, std::span<const double> want, const Limit& limit);
Comparison compare(ConstView got, ConstView want, int64_t count, const Limit& limit);
// These verify the guard zones of `got` too. Requires: as many elements in want as in got.
Comparison compare(const GuardedBuffer& got, std::span<const double> want, const Limit& limit);
Comparison compare(const GuardedBuffer& got, const GuardedBuffer& want, const Limit& limit);

// Of this process's comparisons that passed: how many there were and the largest share of its limit that an
// error took. The one state that the functions of this header keep; thread-safe.
struct Compared {
  int64_t num_within = 0;    // limits
  int64_t num_bits = 0;      // bit for bit
  double worst_share = 0.0;  // 1: an error as large as its limit
};
// Since the last call.
Compared take_compared();

// Same bits, element by element (so -0 differs from 0 and a NaN equals the same NaN). Requires: one dtype.
Comparison compare_bits(ConstView got, ConstView want, int64_t count);
Comparison compare_bits(const GuardedBuffer& got, const GuardedBuffer& want);

}  // namespace plimsoll::test
