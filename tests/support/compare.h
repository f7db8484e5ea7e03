// The basis of all numeric tests: buffers that detect missing writes and writes out of bounds, one comparison
// function with a separate verdict for each kind of error, and inputs that are the same on every machine.
//
// This is not a test framework, and it asserts nothing itself. A test writes EXPECT_TRUE(result.ok()) <<
// result.
//
// Thread-safety: different threads may use different buffers. The functions are pure except that they fill
// their arguments and update the counters of take_compared(). Ownership: a GuardedBuffer owns its memory;
// views of it are valid as long as it exists.
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
//   1. Every byte of a new buffer is 0xFF: a NaN in every floating-point type, and -1 or 255 in the integer
//      types, but never zero.
//   2. Guard zones of kGuardBytes are directly before the first element and directly after the last one,
//      without padding.
class GuardedBuffer {
 public:
  static constexpr int64_t kGuardBytes = 1024;

  // `name` is "test name/tensor name". It appears in messages and is the seed of the fill functions below.
  // Requires: count >= 0.
  GuardedBuffer(std::string name, DType dtype, int64_t count);

  View view() { return {data_, dtype_}; }
  ConstView view() const { return {data_, dtype_}; }
  // Returns a view of the elements from index `first` on. Requires: 0 <= first <= count().
  View view_from(int64_t first);
  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  int64_t count() const { return count_; }
  int64_t size_bytes() const { return count_ * dtype_bytes(dtype_); }
  double load(int64_t i) const { return view().load(i); }

  // Resets all bytes to the state of a new buffer, including the guard zones.
  void poison();
  // Sets every element to `value`.
  void fill(double value);
  // Sets element i to values[i]. Requires: values.size() == count().
  void assign(std::span<const double> values);
  // Returns all elements as doubles.
  std::vector<double> to_doubles() const;

  // Returns the offset in bytes of the first changed guard byte, relative to the first element, or kIntact if
  // no guard byte has changed.
  static constexpr int64_t kIntact = INT64_MIN;
  int64_t broken_guard() const;

  // Fills the buffer with values that are uniform in [low, high).
  GuardedBuffer& fill_uniform(double low = -1.0, double high = 1.0);
  // Fills the buffer with approximately normal values with this mean and standard deviation; no value is
  // further than 3.47 standard deviations from the mean.
  GuardedBuffer& fill_normal(double mean = 0.0, double deviation = 1.0);
  // Fills the buffer with integers in [-magnitude, magnitude]. Sums of their products in fp32 are exact in
  // any order while num_terms * magnitude^2 <= 2^24, and each value is exact in bf16 for magnitude <= 256.
  GuardedBuffer& fill_small_integers(int magnitude = 4);
  // Fills the buffer with integers in [0, bound), for ids and labels. Requires: bound >= 1.
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

// Returns the seed for a tensor: a 64-bit FNV-1a hash of "test name/tensor name".
uint64_t tensor_seed(std::string_view name);

// Fill memory that does not belong to a GuardedBuffer with the values that the functions of GuardedBuffer give.
void fill_uniform(View view, int64_t count, std::string_view name, double low = -1.0, double high = 1.0);
void fill_normal(View view, int64_t count, std::string_view name, double mean = 0.0, double deviation = 1.0);
void fill_small_integers(View view, int64_t count, std::string_view name, int magnitude = 4);
void fill_indices(View view, int64_t count, std::string_view name, int64_t bound);

enum class Zeros : uint8_t { kSuspicious, kExpected };

// The error allowed for an element: |got - want| <= absolute + relative * |want| + per_element[i].
struct Limit {
  double absolute = 0.0;
  double relative = 0.0;
  // Empty, or one further limit for each element, such as an error bound that depends on the operands of that element.
  std::span<const double> per_element = {};
  // Unless this is Zeros::kExpected, the comparison fails if more than half of the results are zero, even
  // where zero is correct. This detects kernels that compute nothing.
  Zeros zeros = Zeros::kSuspicious;
  // Empty, or the shape of the tensor; messages then show one index per dimension.
  std::vector<int64_t> shape = {};
};

enum class Verdict : uint8_t {
  kOk,
  kNothingCompared,  // the tensors had no elements
  kWroteOutside,     // a guard zone changed
  kUnwritten,  // the element has the initial bits of the buffer: it was not written, or computed from unwritten memory
  kNotFinite,   // only one of the two values is NaN or infinite, or infinities differ in sign
  kMostlyZero,  // more than half of the results are zero
  kTooFar,      // error beyond the limit
  kBitsDiffer,  // the bits of an element differ; only compare_bits() returns this verdict
};
std::string_view verdict_name(Verdict verdict);

struct Comparison {
  Verdict verdict = Verdict::kOk;
  int64_t count = 0;
  int64_t num_bad = 0;  // number of elements that fail for the reason given by the verdict
  // If the verdict is kOk or kTooFar, the element with the largest error relative to its limit; otherwise the first failing element.
  int64_t worst_index = -1;
  double got = 0.0;
  double want = 0.0;
  double error = 0.0;  // |got - want| at worst_index
  double limit = 0.0;  // the error allowed at worst_index
  // largest error of all elements, including those that pass (helps to tighten limits)
  double max_error = 0.0;
  std::string message;

  bool ok() const { return verdict == Verdict::kOk; }
};
std::ostream& operator<<(std::ostream& out, const Comparison& comparison);

// Returns the first verdict that applies, in the order of the enum. NaN equals NaN, and infinities of the
// same sign are equal. A poisoned element counts as unwritten even where NaN is wanted; in integer types only
// where the wanted value is different.
Comparison compare(ConstView got, std::span<const double> want, const Limit& limit);
Comparison compare(ConstView got, ConstView want, int64_t count, const Limit& limit);
// Compare the elements as the functions for views do, and also check the guard zones of `got`. Requires: `want` and `got` have the same
// number of elements.
Comparison compare(const GuardedBuffer& got, std::span<const double> want, const Limit& limit);
Comparison compare(const GuardedBuffer& got, const GuardedBuffer& want, const Limit& limit);

// The number of comparisons that passed in this process, and the largest error as a fraction of its limit. This is
// the only state kept by the functions of this header. Thread-safe.
struct Compared {
  int64_t num_within = 0;    // number of comparisons that permit a difference up to a limit
  int64_t num_bits = 0;      // number of comparisons that permit no difference in any bit
  double worst_share = 0.0;  // largest error as a fraction of its limit; 1 means that they are equal
};
// Returns the counts since the last call and resets them.
Compared take_compared();

// Compares the bits of each element, so -0 differs from 0, and a NaN equals a NaN with the same bits.
// Requires: both have the same dtype.
Comparison compare_bits(ConstView got, ConstView want, int64_t count);
Comparison compare_bits(const GuardedBuffer& got, const GuardedBuffer& want);

}  // namespace plimsoll::test
