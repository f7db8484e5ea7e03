#include "generate/token_selection.h"

#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace plimsoll {
namespace {

std::array<uint32_t, 4> numbers(uint64_t seed, const std::array<uint32_t, 4>& counter) {
  return philox4x32_10(counter, {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

[[noreturn]] void throw_not_finite(bool is_nan) {
  throw_error(ErrorCode::kNotFinite,
              "the model gave {} as the score of a next token, so no token can be selected",
              is_nan ? "NaN" : "infinity");
}

[[noreturn]] void throw_all_removed() {
  throw_error(ErrorCode::kUsage,
              "no token of the vocabulary may follow the text; reduce no_repeat_ngram_size or "
              "min_new_tokens, or remove end "
              "tokens that the model needs");
}

}  // namespace

void check_scores(float largest, double log_sum) {
  if (largest > std::numeric_limits<float>::max()) throw_not_finite(false);
  if (std::isnan(log_sum)) throw_not_finite(true);
  if (largest == kRemovedScore) throw_all_removed();
}

int32_t select_greedy(std::span<const float> scores) {
  size_t best = 0;
  float largest = kRemovedScore;
  bool has_nan = false;
  for (size_t v = 0; v < scores.size(); ++v) {
    has_nan = has_nan || std::isnan(scores[v]);
    if (scores[v] > largest) {
      largest = scores[v];
      best = v;
    }
  }
  if (has_nan || largest > std::numeric_limits<float>::max()) throw_not_finite(has_nan);
  if (largest == kRemovedScore) throw_all_removed();
  return static_cast<int32_t>(best);
}

double sampling_number(uint64_t seed, uint64_t sequence, uint32_t position) {
  const auto lanes = numbers(seed, {static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32),
                                    kSamplingSite, position});
  const uint64_t bits = (static_cast<uint64_t>(lanes[0]) << 32 | lanes[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

int32_t select_sampled(std::span<const float> scores, double uniform) {
  const double largest = static_cast<double>(scores[static_cast<size_t>(select_greedy(scores))]);
  const auto weight = [&](float x) { return std::exp(static_cast<double>(x) - largest); };
  double total = 0.0;
  for (const float x : scores) {
    if (x > kRemovedScore) total += weight(x);
  }
  const double wanted = uniform * total;
  double sum = 0.0;
  size_t last = 0;
  for (size_t v = 0; v < scores.size(); ++v) {
    if (!(scores[v] > kRemovedScore)) continue;
    sum += weight(scores[v]);
    last = v;
    if (sum > wanted) break;
  }
  return static_cast<int32_t>(last);
}

double beam_gumbel(uint64_t seed, uint32_t row, uint32_t position, int32_t token) {
  const auto id = static_cast<uint32_t>(token);
  const uint32_t lane = numbers(seed, {id / 4, row, kBeamSite, position})[id % 4];
  return -std::log(-std::log((static_cast<double>(lane) + 0.5) * 0x1p-32));
}

}  // namespace plimsoll
