#include "train/weights.h"

#include <cmath>
#include <numbers>

#include "base/hash.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

// Two normal numbers from two 32-bit numbers (Box and Muller, 1958).
std::pair<double, double> normal_pair(uint32_t a, uint32_t b) {
  const double u = (static_cast<double>(a) + 0.5) / 4294967296.0;
  const double v = static_cast<double>(b) / 4294967296.0;
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

void fill_normal(const View& view, int64_t count, const RandomSite& where, double deviation) {
  for (int64_t i = 0; i < count; i += 4) {
    const auto numbers = philox_block(where, static_cast<uint64_t>(i / 4));
    const auto [a, b] = normal_pair(numbers[0], numbers[1]);
    const auto [c, d] = normal_pair(numbers[2], numbers[3]);
    const double values[4] = {a, b, c, d};
    for (int64_t k = 0; k < 4 && i + k < count; ++k) view.store(i + k, deviation * values[k]);
  }
}

}  // namespace

void initialise_weights(Executor& executor, uint64_t seed, double range) {
  for (const WeightSpec& spec : executor.plan().weights) {
    const View view = executor.tensor(spec.name);
    if (spec.initializer == Initializer::kNormal) {
      const uint64_t hash = hash64(spec.name);
      fill_normal(view, spec.elements(),
                  {.seed = seed, .step = 0xFFFFFFFFu, .site = static_cast<uint32_t>(hash)}, range);
      const int64_t width = spec.elements() / spec.shape[0];
      for (int64_t i = 0; spec.zero_row >= 0 && i < width; ++i) view.store(spec.zero_row * width + i, 0.0);
      continue;
    }
    const double value = spec.initializer == Initializer::kOnes ? 1.0 : 0.0;
    for (int64_t i = 0; i < spec.elements(); ++i) view.store(i, value);
  }
}

LoadReport load_weights(Executor& executor, const ModelFolder& folder, OnShapeMismatch on_mismatch) {
  std::vector<WantedTensor> wanted;
  for (const WeightSpec& spec : executor.plan().weights) {
    for (const WeightPart& part : spec.parts) {
      std::vector<int64_t> shape = spec.shape;
      shape[0] = part.num_rows;
      wanted.push_back({.names = part.disk_names,
                        .shape = std::move(shape),
                        .destination = executor.tensor(spec.name),
                        .first_row = part.first_row});
    }
  }
  return folder.load(wanted, {.on_mismatch = on_mismatch, .ignored_suffixes = {"position_ids"}});
}

std::vector<TensorSource> weight_tensors(const Executor& executor) {
  std::vector<TensorSource> tensors;
  for (const WeightSpec& spec : executor.plan().weights) {
    const View view = executor.tensor(spec.name);
    const int64_t row_elements = spec.elements() / spec.shape[0];
    for (const WeightPart& part : spec.parts) {
      std::vector<int64_t> shape = spec.shape;
      shape[0] = part.num_rows;
      tensors.push_back({.name = part.disk_names.front(),
                         .dtype = view.dtype,
                         .shape = std::move(shape),
                         .data = static_cast<const std::byte*>(view.data) +
                                 part.first_row * row_elements * dtype_bytes(view.dtype)});
    }
  }
  return tensors;
}

std::vector<TensorSource> state_tensors(const Executor& executor) {
  std::vector<TensorSource> tensors;
  for (const PersistentBuffer& buffer : executor.plan().persistent) {
    if (buffer.storage != Storage::kOptimizerState) continue;
    std::vector<int64_t> shape;
    for (const Dim& dim : buffer.type.shape.dims()) shape.push_back(dim.offset);
    tensors.push_back({.name = buffer.name,
                       .dtype = buffer.type.dtype,
                       .shape = std::move(shape),
                       .data = executor.tensor(buffer.name).data});
  }
  return tensors;
}

}  // namespace plimsoll
