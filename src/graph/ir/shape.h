// Shapes whose sizes may depend on the bucket of a batch (the sizes for which a program is compiled). Thread-safe: values only.
//
// One graph, one schedule and one memory layout are used for all buckets, because a dimension is an
// affine function of one symbol, such as the number T of tokens. A larger bucket never makes a size
// smaller (factor >= 0 is required), so the layout of the largest bucket is valid for every other.
// If n ranks divide the rows of a value (sequence parallelism), each has T / n rows.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/tensor_batch.h"

namespace plimsoll {

// A bucket states the sizes of a batch for which a program is compiled. T: number of tokens, which are rows. B: number of sequences. L:
// number of tokens with a label, in programs that compute a loss for only these.
enum class Symbol : uint8_t { kNone, kTokens, kSequences, kLabels };

// A bucket: the sizes of a batch for which a program is compiled. Its field `longest` is the
// largest length of a sequence. The size of scratch memory may depend on it, but no shape does.
using Bucket = BatchSize;

// A dimension: factor * symbol / divisor + offset. A constant has no symbol and factor 0. A divisor above 1 is the number of ranks of a
// tensor-parallel group that divide the tokens of a batch: rank r has the r-th part. Requires: the divisor divides the number of tokens of
// every bucket.
struct Dim {
  int64_t factor = 0;
  Symbol symbol = Symbol::kNone;
  int32_t divisor = 1;
  int64_t offset = 0;

  constexpr Dim() = default;
  constexpr Dim(int64_t constant) : offset(constant) {}  // NOLINT: implicit, so that a number is a Dim
  constexpr Dim(int64_t f, Symbol s, int64_t o = 0) : factor(f), symbol(s), offset(o) {}

  constexpr bool is_constant() const { return symbol == Symbol::kNone; }
  // Returns this dimension divided among a number of ranks. Requires: this dimension is a multiple of T, has no offset and is not divided
  // yet.
  Dim divided(int64_t ranks) const {
    PLIMSOLL_CHECK(symbol == Symbol::kTokens && offset == 0 && divisor == 1 && ranks >= 1,
                   "only the tokens of a bucket can be divided among {} ranks", ranks);
    Dim part = *this;
    part.divisor = static_cast<int32_t>(ranks);
    return part;
  }
  // If this dimension is divided among ranks, returns the undivided dimension; otherwise returns this dimension.
  constexpr Dim whole() const {
    Dim all = *this;
    all.divisor = 1;
    return all;
  }
  constexpr int64_t at(const Bucket& bucket) const {
    switch (symbol) {
      case Symbol::kNone:
        return offset;
      case Symbol::kTokens:
        return factor * bucket.tokens / divisor + offset;
      case Symbol::kSequences:
        return factor * bucket.sequences + offset;
      case Symbol::kLabels:
        return factor * bucket.label_rows() + offset;
    }
    return offset;
  }
  friend constexpr bool operator==(const Dim&, const Dim&) = default;
};

inline constexpr Dim kDimT{1, Symbol::kTokens};
inline constexpr Dim kDimB{1, Symbol::kSequences};
inline constexpr Dim kDimL{1, Symbol::kLabels};

// Returns a text such as "T", "4*T", "T/2", "B+1" or "384".
std::string format_dim(const Dim& dim);
// Parses the result of format_dim(). Returns nothing if the text is not a dimension.
std::optional<Dim> parse_dim(std::string_view text);

// At most four dimensions, row-major. The empty shape is a scalar of one element.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<Dim> dims) : Shape(std::span<const Dim>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const Dim> dims) : rank_(static_cast<uint8_t>(dims.size())) {
    PLIMSOLL_CHECK(dims.size() <= kMaxRank, "a shape can have at most 4 dimensions, but {} are given",
                   dims.size());
    for (size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
  }

  int rank() const { return rank_; }
  const Dim& operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  std::span<const Dim> dims() const { return {dims_.data(), rank_}; }
  const Dim& last() const {
    PLIMSOLL_CHECK(rank_ > 0);
    return dims_[static_cast<size_t>(rank_) - 1];
  }
  // Returns true if the rows of this shape are tokens. If a batch has fewer tokens than its bucket,
  // the rows after the last token are called tail rows.
  bool has_token_rows() const { return rank_ > 0 && dims_[0].symbol == Symbol::kTokens; }
  // Returns the number of ranks that divide the rows among them, or 1.
  int64_t row_ranks() const { return rank_ > 0 ? dims_[0].divisor : 1; }
  // Returns this shape with another first dimension. Requires: the shape has a dimension.
  Shape with_rows(const Dim& rows) const {
    PLIMSOLL_CHECK(rank_ > 0);
    Shape shape = *this;
    shape.dims_[0] = rows;
    return shape;
  }
  bool depends_on_bucket() const;
  int64_t elements(const Bucket& bucket) const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<size_t>(i)].at(bucket);
    return n;
  }
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (!(a[i] == b[i])) return false;
    }
    return true;
  }

 private:
  std::array<Dim, kMaxRank> dims_{};
  uint8_t rank_ = 0;
};

// Returns a text such as "[T,384]", or "[]" for a scalar.
std::string format_shape(const Shape& shape);

}  // namespace plimsoll
