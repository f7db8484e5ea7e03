// What attention does to one row of scores: exponentials, softmax, dropout, the gradient through both.
// Compiled once per instruction set, as attention_tiles-inl.h.
#if defined(PLIMSOLL_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_ATTENTION_ROWS_INL_H_
#undef PLIMSOLL_ATTENTION_ROWS_INL_H_
#else
#define PLIMSOLL_ATTENTION_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "kernels/attention/attention_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// exp(x) for x <= 88. Relative error below 1.5e-7 (2.5 u) from -87.3 on; zero below, where the result would
// be denormal; NaN stays NaN. exp(x) = 2^n exp(r) with n the nearest integer to x / ln 2 and |r| <= ln 2 / 2.
// The polynomial is the minimax approximation of (exp(r) - 1 - r) / r^2 that makes the relative error of
// exp(r) least (3.1e-9 in exact arithmetic; Remez exchange).
HWY_INLINE FloatVec exp_floats(FloatVec x) {
  const Floats df;
  const hn::RebindToUnsigned<Floats> du;
  // Adding 1.5 * 2^23 rounds to an integer, whose low bits are then the low bits of the sum; 127 is the bias
  // of fp32.
  const FloatVec magic = hn::Set(df, 12582912.0f + 127.0f);
  const FloatVec sum = hn::MulAdd(x, hn::Set(df, 1.44269504f), magic);
  const FloatVec n = hn::Sub(sum, magic);
  // ln 2 in two parts; the first has nine significant bits, so that n times it is exact.
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

#if HWY_TARGET == HWY_SCALAR
// Dropout of the probabilities of one query row and head; the vectorised class below says what fill does.
class DropoutRow {
 public:
  DropoutRow(const RandomSite& where, double dropout) : where_(where), dropout_(dropout) {}
  void fill(uint64_t row_element, int64_t first_key, int64_t count, float* factors) const {
    for (int64_t c = 0; c < count; ++c) {
      const uint32_t number = philox_element(where_, row_element + static_cast<uint64_t>(first_key + c));
      factors[c] = number >= dropout_threshold(dropout_) ? dropout_scale(dropout_) : 0.0f;
    }
  }

 private:
  RandomSite where_;
  double dropout_;
};
#else
// Dropout of the probabilities of one query row and head.
class DropoutRow {
 public:
  using Words = hn::Repartition<uint32_t, Floats>;
  using Pairs = hn::Repartition<uint64_t, Floats>;

  DropoutRow(const RandomSite& where, double dropout)
      : where_(where), threshold_(dropout_threshold(dropout)), factor_(dropout_scale(dropout)) {
    for (uint32_t round = 0; round < 10; ++round) {
      key0_[round] = static_cast<uint32_t>(where.seed) + round * kPhiloxW0;
      key1_[round] = static_cast<uint32_t>(where.seed >> 32) + round * kPhiloxW1;
    }
  }

  // factors[c] = what the probability of key first_key + c is multiplied by: 0 or dropout_scale, for c <
  // count rounded up to a multiple of 64. Requires: first_key is a multiple of 4; row_element =
  // attention_element(t, H, h, 0).
  //
  // All counters of the row differ in the lowest word alone, so that one product of each of the first two
  // rounds is the same for all. A 64-bit lane holds a counter's products; only the lower half of a lane means
  // anything between rounds.
  void fill(uint64_t row_element, int64_t first_key, int64_t count, float* factors) const {
    const uint64_t row_block = row_element / 4;
    const uint64_t site_product = static_cast<uint64_t>(kPhiloxM1) * where_.site;
    const uint32_t second0 =
        static_cast<uint32_t>(site_product >> 32) ^ static_cast<uint32_t>(row_block >> 32) ^ key0_[0];
    const uint64_t second_product = static_cast<uint64_t>(kPhiloxM0) * second0;
    Start1 start;
    start.word1 = static_cast<uint32_t>(site_product) ^ key0_[1];
    start.word2 = static_cast<uint32_t>(second_product >> 32) ^ key1_[1];
    start.word3 = static_cast<uint32_t>(second_product) ^ key1_[2];
    start.step = where_.step ^ key1_[0];
    const uint32_t first_block = static_cast<uint32_t>(row_block) + static_cast<uint32_t>(first_key / 4);
    for (int64_t c = 0; c < count; c += 4 * lanes()) {
      fill_two(start, first_block + static_cast<uint32_t>(c / 4), factors + c);
    }
  }

 private:
  struct Start1 {
    uint32_t word1, word2, word3, step;
  };
  struct Counters {
    hn::Vec<Words> c0, c1, c2, c3;
  };
  static HWY_INLINE hn::Vec<Words> product(hn::Vec<Words> a, uint32_t b) {
    return hn::BitCast(Words(), hn::MulEven(a, hn::Set(Words(), b)));
  }
  static HWY_INLINE hn::Vec<Words> word(uint32_t value) { return hn::Set(Words(), value); }

  // Rounds one to three, without the products that are the same for all lanes.
  HWY_INLINE Counters first_rounds(const Start1& start, uint32_t block) const {
    // Lane 2 b + s of the 64-bit lanes counts b + s * lanes / 4, so that interleaving puts the numbers in
    // order.
    static constexpr uint32_t kBlocks[4][16] = {
        {0, 0, 1, 0}, {0, 0, 2, 0, 1, 0, 3, 0}, {}, {0, 0, 4, 0, 1, 0, 5, 0, 2, 0, 6, 0, 3, 0, 7, 0}};
    const auto counted = hn::Add(hn::LoadU(Words(), kBlocks[lanes() / 4 - 1]), word(block));
    const auto p0 = product(counted, kPhiloxM0);
    const auto second2 = hn::Xor(hn::Shuffle2301(p0), word(start.step));
    const auto p1 = product(second2, kPhiloxM1);
    const auto third0 = hn::Xor(hn::Shuffle2301(p1), word(start.word1));
    const auto third2 = hn::Xor(p0, word(start.word2));
    const auto q0 = product(third0, kPhiloxM0);
    const auto q1 = product(third2, kPhiloxM1);
    return {hn::Xor3(hn::Shuffle2301(q1), p1, word(key0_[2])), q1,
            hn::Xor(hn::Shuffle2301(q0), word(start.word3)), q0};
  }

  HWY_INLINE Counters next_round(const Counters& c, uint32_t key0, uint32_t key1) const {
    const auto p0 = product(c.c0, kPhiloxM0);
    const auto p1 = product(c.c2, kPhiloxM1);
    return {hn::Xor3(hn::Shuffle2301(p1), c.c1, word(key0)), p1,
            hn::Xor3(hn::Shuffle2301(p0), c.c3, word(key1)), p0};
  }

  HWY_INLINE void store_factors(const Counters& c, float* factors) const {
    const Floats df;
    const Words dw;
    const Pairs dp;
    const auto low = hn::BitCast(dp, hn::OddEven(hn::Shuffle2301(c.c1), c.c0));
    const auto high = hn::BitCast(dp, hn::OddEven(hn::Shuffle2301(c.c3), c.c2));
    const auto numbers0 = hn::BitCast(dw, hn::InterleaveLower(dp, low, high));
    const auto numbers1 = hn::BitCast(dw, hn::InterleaveUpper(dp, low, high));
    const auto drop0 = hn::RebindMask(df, hn::Lt(numbers0, word(threshold_)));
    const auto drop1 = hn::RebindMask(df, hn::Lt(numbers1, word(threshold_)));
    hn::StoreU(hn::IfThenZeroElse(drop0, hn::Set(df, factor_)), df, factors);
    hn::StoreU(hn::IfThenZeroElse(drop1, hn::Set(df, factor_)), df, factors + lanes());
  }

  // The factors of 4 * lanes() keys: two independent vectors of counters hide the latency of the products.
  HWY_INLINE void fill_two(const Start1& start, uint32_t block, float* factors) const {
    Counters a = first_rounds(start, block);
    Counters b = first_rounds(start, block + static_cast<uint32_t>(lanes() / 2));
    HWY_UNROLL(7)
    for (int round = 3; round < 10; ++round) {
      a = next_round(a, key0_[round], key1_[round]);
      b = next_round(b, key0_[round], key1_[round]);
    }
    store_factors(a, factors);
    store_factors(b, factors + 2 * lanes());
  }

  RandomSite where_;
  uint32_t threshold_;
  float factor_;
  uint32_t key0_[10];
  uint32_t key1_[10];
};
#endif

// The lanes of the vector at c that are below `count`.
HWY_INLINE hn::Mask<Floats> below(int64_t c, int64_t count) {
  return hn::FirstN(Floats(), static_cast<size_t>(std::min(count - c, lanes())));
}

struct SoftmaxRow {
  float inverse_sum;
  float lse;
};

// Turns the scores of `visible` keys into exp(scale * (score - largest)), times the dropout factors unless
// null, and zeroes the rest up to `width` rounded up to whole vectors. Requires: visible >= 1, scale > 0.
inline SoftmaxRow softmax_row(float* scores, int64_t visible, int64_t width, float scale,
                              const float* factors) {
  const Floats df;
  const int64_t whole = visible / lanes() * lanes();
  FloatVec largest = hn::Set(df, scores[0]);
  for (int64_t c = 0; c < whole; c += lanes()) largest = hn::Max(largest, hn::LoadU(df, scores + c));
  if (whole < visible) {
    const FloatVec last = hn::LoadU(df, scores + whole);
    largest = hn::Max(largest, hn::IfThenElse(below(whole, visible), last, largest));
  }
  const float shift = scale * hn::GetLane(hn::MaxOfLanes(df, largest));
  FloatVec sum = hn::Zero(df);
  for (int64_t c = 0; c < visible; c += lanes()) {
    const FloatVec x = hn::MulSub(hn::LoadU(df, scores + c), hn::Set(df, scale), hn::Set(df, shift));
    FloatVec p = exp_floats(x);
    if (c == whole) p = hn::IfThenElseZero(below(c, visible), p);
    sum = hn::Add(sum, p);
    hn::StoreU(factors != nullptr ? hn::Mul(p, hn::LoadU(df, factors + c)) : p, df, scores + c);
  }
  for (int64_t c = attention_round_up(visible, lanes()); c < width; c += lanes()) {
    hn::StoreU(hn::Zero(df), df, scores + c);
  }
  const float total = hn::GetLane(hn::SumOfLanes(df, sum));
  return {1.0f / total, shift + std::log(total)};
}

// One row of a tile in the backward pass. In: scores q.k and d_o.v. Out: p_ij m_ij in place of the scores,
// and d_x_ij = p_ij (m_ij d_o.v - delta) in place of the products, both zero from `visible` to `width`
// rounded up to whole vectors. `factors` holds m_ij, or is null when all are 1.
inline void gradient_row(float* scores, float* products, int64_t visible, int64_t width, float scale,
                         float lse, float delta, const float* factors) {
  const Floats df;
  for (int64_t c = 0; c < width; c += lanes()) {
    const FloatVec x = hn::MulSub(hn::LoadU(df, scores + c), hn::Set(df, scale), hn::Set(df, lse));
    FloatVec p = exp_floats(x);
    if (c + lanes() > visible) p = hn::IfThenElseZero(below(c, std::max(visible, c)), p);
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

// delta of one query row: the dot product of packed rows of o and d_o.
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
