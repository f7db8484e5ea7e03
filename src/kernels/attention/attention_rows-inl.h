// The operations of attention on one row of scores: exponentials, softmax, dropout, and the gradient through all of them. These functions
// are compiled once per instruction set, like attention_tiles-inl.h.
#if defined(PLIMSOLL_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_ATTENTION_ROWS_INL_H_
#undef PLIMSOLL_ATTENTION_ROWS_INL_H_
#else
#define PLIMSOLL_ATTENTION_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/philox.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Computes exp(x) for x <= 88. The relative error is below 1.5e-7 (2.5 times the rounding error 2^-24) for x >= -87.3. Below that the
// result, which would be denormal, is zero; NaN stays NaN. exp(x) = 2^n exp(r) with n the nearest integer to x / ln 2 and |r| <= ln 2 / 2.
// The polynomial is the minimax approximation of (exp(r) - 1 - r) / r^2 that minimises the relative error of exp(r) (3.1e-9 in exact
// arithmetic; Remez exchange).
HWY_INLINE FloatVec exp_floats(FloatVec x) {
  const Floats df;
  const hn::RebindToUnsigned<Floats> du;
  // Adding 1.5 * 2^23 rounds x / ln 2 to an integer n and leaves n in the low bits of the sum. With 127, the exponent bias of fp32, added
  // as well, a shift of these bits gives the bits of the float 2^n.
  const FloatVec magic = hn::Set(df, 12582912.0f + 127.0f);
  const FloatVec sum = hn::MulAdd(x, hn::Set(df, 1.44269504f), magic);
  const FloatVec n = hn::Sub(sum, magic);
  // ln 2 is split into a large and a small number. The large one has nine significant bits, so its product with n is exact.
  FloatVec r = hn::NegMulAdd(n, hn::Set(df, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(df, -2.12194440e-4f), r);
  FloatVec q = hn::MulAdd(r, hn::Set(df, 1.38145956e-3f), hn::Set(df, 8.368716853e-3f));
  q = hn::MulAdd(r, q, hn::Set(df, 4.16683881e-2f));
  q = hn::MulAdd(r, q, hn::Set(df, 1.666652063e-1f));
  q = hn::MulAdd(r, q, hn::Set(df, 4.999999345e-1f));
  const FloatVec exp_r = hn::MulAdd(hn::Mul(r, r), q, hn::Add(r, hn::Set(df, 1.0f)));
  const FloatVec power = hn::BitCast(df, hn::ShiftLeft<23>(hn::BitCast(du, sum)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(df, -87.33f)), hn::Mul(exp_r, power));
}

// The dropout factors of the probabilities of one query row and head. fill() sets factors[c] to the factor of key first_key + c, 0 or
// dropout_scale, for all c below `count` rounded up to a multiple of 64. Requires: first_key is a multiple of 32; row = attention_row(t, H,
// h).
#if HWY_TARGET == HWY_SCALAR
class DropoutRow {
 public:
  DropoutRow(const RandomSite& where, double dropout) : where_(where), dropout_(dropout) {}
  void fill(uint64_t row, int64_t first_key, int64_t count, float* factors) const {
    for (int64_t c = 0; c < count; ++c) {
      const uint32_t number = attention_number(where_, row, first_key + c);
      factors[c] = number >= dropout_threshold(dropout_) ? dropout_scale(dropout_) : 0.0f;
    }
  }

 private:
  RandomSite where_;
  double dropout_;
};
#else
class DropoutRow {
 public:
  using Words = hn::Repartition<uint32_t, Floats>;
  using Pairs = hn::Repartition<uint64_t, Floats>;

  DropoutRow(const RandomSite& where, double dropout)
      : where_(where), threshold_(dropout_threshold(dropout)), factor_(dropout_scale(dropout)) {
    for (uint32_t round = 0; round < kHalfRounds; ++round) {
      key0_[round] = static_cast<uint32_t>(where.seed) + round * kPhiloxW0;
      key1_[round] = static_cast<uint32_t>(where.seed >> 32) + round * kPhiloxW1;
    }
  }

  void fill(uint64_t row, int64_t first_key, int64_t count, float* factors) const {
    alignas(64) uint16_t numbers[64];
    for (int64_t c = 0; c < count; c += 64) {
      draw(static_cast<uint32_t>(row), static_cast<uint32_t>((first_key + c) / 8), numbers);
      const Floats df;
      const hn::Rebind<uint16_t, Floats> d16;
      for (int64_t i = 0; i < 64; i += lanes()) {
        const auto drop = hn::Lt(hn::PromoteTo(Words(), hn::LoadU(d16, numbers + i)), word(threshold_));
        hn::StoreU(hn::IfThenZeroElse(hn::RebindMask(df, drop), hn::Set(df, factor_)), df, factors + c + i);
      }
    }
  }

 private:
  struct Counters {
    hn::Vec<Words> c0, c1, c2, c3;
  };
  static HWY_INLINE hn::Vec<Words> product(hn::Vec<Words> a, uint32_t b) {
    return hn::BitCast(Words(), hn::MulEven(a, hn::Set(Words(), b)));
  }
  static HWY_INLINE hn::Vec<Words> word(uint32_t value) { return hn::Set(Words(), value); }

  // Computes one Philox round. Each counter word is in the lower half of a 64-bit lane, because the round needs 64-bit products. After a
  // round the upper halves are arbitrary.
  HWY_INLINE Counters next_round(const Counters& c, uint32_t key0, uint32_t key1) const {
    const auto p0 = product(c.c0, kPhiloxM0);
    const auto p1 = product(c.c2, kPhiloxM1);
    return {hn::Xor3(hn::Shuffle2301(p1), c.c1, word(key0)), p1,
            hn::Xor3(hn::Shuffle2301(p0), c.c3, word(key1)), p0};
  }

  // Draws the random numbers of 64 keys. Four Philox blocks give the numbers of 32 keys: word n of the four blocks contains the numbers of
  // keys 8 n .. 8 n + 7 in order, two per word.
  HWY_INLINE void draw(uint32_t row, uint32_t first_block, uint16_t* numbers) const {
    constexpr int64_t kMostLanes = 8;
    const hn::Rebind<uint32_t, Pairs> narrow;
    const int64_t counters = lanes() / 2;
    for (int64_t block = 0; block < 8; block += counters) {
      const auto counted =
          hn::Add(hn::Iota(Pairs(), 0), hn::Set(Pairs(), first_block + static_cast<uint64_t>(block)));
      Counters c{hn::BitCast(Words(), counted), word(row), word(where_.site), word(where_.step)};
      HWY_UNROLL(kHalfRounds)
      for (int round = 0; round < kHalfRounds; ++round) c = next_round(c, key0_[round], key1_[round]);
      const hn::Vec<Words> words[4] = {c.c0, c.c1, c.c2, c.c3};
      alignas(64) uint32_t packed[kMostLanes];
      for (int64_t n = 0; n < 4; ++n) {
        hn::StoreU(hn::TruncateTo(narrow, hn::BitCast(Pairs(), words[n])), narrow, packed);
        for (int64_t i = 0; i < counters; ++i) {
          std::memcpy(numbers + 32 * ((block + i) / 4) + 8 * n + 2 * ((block + i) % 4), packed + i, 4);
        }
      }
    }
  }

  RandomSite where_;
  uint32_t threshold_;
  float factor_;
  uint32_t key0_[kHalfRounds];
  uint32_t key1_[kHalfRounds];
};
#endif

// Returns a mask for the vector of elements c, c + 1 and so on, in which the lanes of elements below `count` are set.
HWY_INLINE hn::Mask<Floats> below(int64_t c, int64_t count) {
  return hn::FirstN(Floats(), static_cast<size_t>(std::min(count - c, lanes())));
}

struct SoftmaxRow {
  float inverse_sum;
  float lse;
};

// Sets elements `first` .. end - 1 to zero. Writes whole vectors, so elements after them may be set to zero too.
inline void clear_floats(float* values, int64_t first, int64_t end) {
  for (int64_t c = first; c < end; c += lanes()) hn::StoreU(hn::Zero(Floats()), Floats(), values + c);
}

// Replaces the scores of keys first .. visible - 1 with exp(scale * (score - largest)), multiplied by the dropout factors unless `factors`
// is null. Writes zeros for the other keys below `width` rounded up to whole vectors. Returns the lse of the row and 1 / (sum of the
// exponentials without dropout). Requires: 0 <= first < visible, scale > 0.
inline SoftmaxRow softmax_row(float* scores, int64_t first, int64_t visible, int64_t width, float scale,
                              const float* factors) {
  const Floats df;
  const int64_t start = first / lanes() * lanes();
  const int64_t whole = visible / lanes() * lanes();
  FloatVec largest = hn::Set(df, scores[first]);
  for (int64_t c = start; c < visible; c += lanes()) {
    FloatVec x = hn::LoadU(df, scores + c);
    if (c < first) x = hn::IfThenElse(below(c, first), largest, x);
    if (c == whole) x = hn::IfThenElse(below(c, visible), x, largest);
    largest = hn::Max(largest, x);
  }
  const float shift = scale * hn::GetLane(hn::MaxOfLanes(df, largest));
  FloatVec sum = hn::Zero(df);
  clear_floats(scores, 0, start);
  for (int64_t c = start; c < visible; c += lanes()) {
    const FloatVec x = hn::MulSub(hn::LoadU(df, scores + c), hn::Set(df, scale), hn::Set(df, shift));
    FloatVec p = exp_floats(x);
    if (c == whole) p = hn::IfThenElseZero(below(c, visible), p);
    if (c < first) p = hn::IfThenZeroElse(below(c, first), p);
    sum = hn::Add(sum, p);
    hn::StoreU(factors != nullptr ? hn::Mul(p, hn::LoadU(df, factors + c)) : p, df, scores + c);
  }
  clear_floats(scores, attention_round_up(visible, lanes()), width);
  const float total = hn::GetLane(hn::SumOfLanes(df, sum));
  return {1.0f / total, shift + std::log(total)};
}

// Computes the gradients of one row of a tile of scores. On entry `scores` contains q.k and `products` contains d_o.v. On return `scores`
// contains p_ij m_ij and `products` contains d_x_ij = p_ij (m_ij d_o.v - delta) (attention.h); both are zero below `first` and from
// `visible` to `width` rounded up to whole vectors. `factors` contains the dropout factors m_ij, or is null if all are 1.
inline void gradient_row(float* scores, float* products, int64_t first, int64_t visible, int64_t width,
                         float scale, float lse, float delta, const float* factors) {
  const Floats df;
  for (int64_t c = 0; c < width; c += lanes()) {
    const FloatVec x = hn::MulSub(hn::LoadU(df, scores + c), hn::Set(df, scale), hn::Set(df, lse));
    FloatVec p = exp_floats(x);
    if (c + lanes() > visible) p = hn::IfThenElseZero(below(c, std::max(visible, c)), p);
    if (c < first) p = hn::IfThenZeroElse(below(c, first), p);
    FloatVec d_p = hn::LoadU(df, products + c);
    FloatVec weight = p;
    if (factors != nullptr) {
      const FloatVec m = hn::LoadU(df, factors + c);
      d_p = hn::Mul(d_p, m);
      weight = hn::Mul(p, m);
    }
    hn::StoreU(weight, df, scores + c);
    hn::StoreU(hn::Mul(p, hn::Sub(d_p, hn::Set(df, delta))), df, products + c);
  }
}

// Returns delta of one query row: the dot product of its elements of o and d_o, both as fp32 rows of a tile.
inline float dot_rows(const float* a, const float* b, int64_t head_dim) {
  const Floats df;
  FloatVec sum = hn::Zero(df);
  for (int64_t d = 0; d < head_dim; d += lanes()) {
    sum = hn::MulAdd(hn::LoadU(df, a + d), hn::LoadU(df, b + d), sum);
  }
  return hn::GetLane(hn::SumOfLanes(df, sum));
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif
