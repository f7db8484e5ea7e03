#include "train/weight_loading.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/hash.h"
#include "base/philox.h"
#include "device/cpu/parallel.h"
#include "exec/quantized_weights.h"

namespace plimsoll {
namespace {

// Returns two normally distributed numbers, computed from two 32-bit random numbers (Box and Muller, 1958).
std::pair<double, double> normal_pair(uint32_t a, uint32_t b) {
  const double u = (static_cast<double>(a) + 0.5) / 4294967296.0;
  const double v = static_cast<double>(b) / 4294967296.0;
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Fills elements first .. first + count - 1 of a tensor with normally distributed numbers; `first` is a multiple of 4. The work can be
// divided among threads, because each number depends only on its index.
void fill_normal(const View& view, int64_t first, int64_t count, const RandomSite& where, double deviation) {
  constexpr int64_t kChunk = 4096;
  parallel_for((count + kChunk - 1) / kChunk, [&](int64_t chunk, int /*thread*/) {
    const int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; i += 4) {
      const auto numbers = philox_block(where, static_cast<uint64_t>((first + i) / 4));
      const auto [a, b] = normal_pair(numbers[0], numbers[1]);
      const auto [c, d] = normal_pair(numbers[2], numbers[3]);
      const double values[4] = {a, b, c, d};
      for (int64_t k = 0; k < 4 && i + k < end; ++k) view.store(i + k, deviation * values[k]);
    }
  });
}

// Returns the x with Phi(x) = (1 + y) / 2, where Phi is the distribution function of the normal distribution: sqrt(2) times the
// inverse of the error function. An approximation with a relative error of 2e-3 (Winitzki, 2008) is followed by two steps of
// Newton's method. Requires: |y| < 1.
double normal_quantile(double y) {
  constexpr double kA = 0.147;
  const double log = std::log1p(-y * y), middle = 2.0 / (std::numbers::pi * kA) + log / 2.0;
  double z = std::copysign(std::sqrt(std::sqrt(middle * middle - log / kA) - middle), y);
  for (int step = 0; step < 2; ++step)
    z -= (std::erf(z) - y) * std::sqrt(std::numbers::pi) / 2.0 * std::exp(z * z);
  return std::numbers::sqrt2 * z;
}

// Fills the elements with numbers from a normal distribution that is truncated at `cutoff` standard deviations, by the inverse of the
// distribution function. The work can be divided among threads, because each number depends only on its index.
void fill_truncated_normal(const View& view, int64_t first, int64_t count, const RandomSite& where,
                           double deviation, double cutoff) {
  constexpr int64_t kChunk = 4096;
  const double mass = std::erf(cutoff / std::numbers::sqrt2);
  parallel_for((count + kChunk - 1) / kChunk, [&](int64_t chunk, int /*thread*/) {
    for (int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      const double u =
          (static_cast<double>(philox_element(where, static_cast<uint64_t>(first + i))) + 0.5) / 4294967296.0;
      view.store(i, deviation * std::clamp(normal_quantile(mass * (2.0 * u - 1.0)), -cutoff, cutoff));
    }
  });
}

// Fills the elements with normally distributed numbers, truncated or not as the spec of the weight requires.
void fill_normal_of(const WeightSpec& spec, const View& view, int64_t first, int64_t count,
                    const RandomSite& where, double range) {
  const double deviation = spec.deviation.value_or(range) * spec.normal_scale;
  if (spec.cutoff > 0.0) return fill_truncated_normal(view, first, count, where, deviation, spec.cutoff);
  fill_normal(view, first, count, where, deviation);
}

// Fills the elements with numbers that are uniformly distributed between -bound and bound.
void fill_uniform(const View& view, int64_t first, int64_t count, const RandomSite& where, double bound) {
  for (int64_t i = 0; i < count; ++i) {
    const double u =
        (static_cast<double>(philox_element(where, static_cast<uint64_t>(first + i))) + 0.5) / 4294967296.0;
    view.store(i, bound * (2.0 * u - 1.0));
  }
}

// Initialises a quantized weight, one part of a fused weight after the other, with the numbers that an unquantized weight would get, and
// quantizes them.
void initialise_quantized(Executor& executor, const WeightSpec& spec, const RandomSite& where, double range) {
  for (size_t i = 0; i < spec.parts.size(); ++i) {
    std::vector<float> values(static_cast<size_t>(spec.parts[i].num_rows * spec.shape[1]));
    const View view{values.data(), DType::kF32};
    fill_normal_of(spec, view, spec.parts[i].first_row * spec.shape[1], std::ssize(values), where, range);
    write_quantized(executor, spec, i, view);
  }
}

void initialise(Executor& executor, const WeightSpec& spec, uint64_t seed, double range) {
  const DType dtype = executor.plan().type_of(spec.name).dtype;
  const RandomSite where{.seed = seed, .step = 0xFFFFFFFFu, .site = static_cast<uint32_t>(hash64(spec.name))};
  if (is_quantized(executor.plan(), spec.name)) return initialise_quantized(executor, spec, where, range);
  const int64_t width = spec.elements() / spec.shape[0];
  std::vector<std::byte> bytes(
      static_cast<size_t>(std::min(kPieceElements, spec.elements()) * dtype_bytes(dtype)));
  const View piece{bytes.data(), dtype};
  for (int64_t first = 0; first < spec.elements(); first += kPieceElements) {
    const int64_t count = std::min(kPieceElements, spec.elements() - first);
    if (spec.initializer == Initializer::kNormal) {
      fill_normal_of(spec, piece, first, count, where, range);
    } else if (spec.initializer == Initializer::kUniform) {
      fill_uniform(piece, first, count, where, 1.0 / std::sqrt(static_cast<double>(width)));
    } else {
      const double value = spec.initializer == Initializer::kOnes ? 1.0 : 0.0;
      for (int64_t i = 0; i < count; ++i) piece.store(i, value);
    }
    for (int64_t i = 0; spec.zero_row >= 0 && i < count; ++i) {
      if ((first + i) / width == spec.zero_row) piece.store(i, 0.0);
    }
    executor.write(spec.name, first * dtype_bytes(dtype),
                   std::span(bytes).first(static_cast<size_t>(count * dtype_bytes(dtype))));
  }
}

}  // namespace

void initialise_weights(Executor& executor, uint64_t seed, double range, const ModelFolder* folder,
                        WeightsFrom from) {
  for (const WeightSpec& spec : executor.plan().weights) {
    if (folder != nullptr && is_loaded(spec, *folder, from)) continue;
    // Skips a weight that belongs to another pipeline stage.
    if (executor.plan().is_pipelined() && !executor.plan().has_tensor(spec.name)) continue;
    initialise(executor, spec, seed, range);
  }
}

}  // namespace plimsoll
