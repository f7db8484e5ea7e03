#include "base/tensor_batch.h"

#include <algorithm>

#include "base/check.h"

namespace plimsoll {

TensorBatch::TensorBatch(const BatchLayout& layout) : specs_(layout.tensors), capacity_(layout.capacity) {
  size_t num_ints = 0;
  size_t num_floats = 0;
  for (const BatchTensorSpec& spec : specs_) {
    PLIMSOLL_CHECK(spec.dtype == DType::kI32 || spec.dtype == DType::kF32,
                   "the tensor '{}' of a batch must be i32 or f32, but is {}", spec.name,
                   dtype_name(spec.dtype));
    (spec.dtype == DType::kI32 ? num_ints : num_floats) += static_cast<size_t>(spec.elements(capacity_));
  }
  ints_.resize(num_ints);
  floats_.resize(num_floats);
}

void TensorBatch::resize(const BatchSize& size) {
  PLIMSOLL_CHECK(size.tokens <= capacity_.tokens && size.sequences <= capacity_.sequences,
                 "a batch of this capacity holds at most {} tokens in {} sequences, but is resized to {} "
                 "tokens in {} sequences",
                 capacity_.tokens, capacity_.sequences, size.tokens, size.sequences);
  PLIMSOLL_CHECK(size.label_rows() <= capacity_.label_rows(),
                 "a batch of this capacity holds at most {} tokens with a label, but is resized to {}",
                 capacity_.label_rows(), size.label_rows());
  size_ = size;
}

const BatchTensorSpec& TensorBatch::spec(std::string_view name) const {
  const auto found = std::ranges::find(specs_, name, &BatchTensorSpec::name);
  PLIMSOLL_CHECK(found != specs_.end(), "the batch has no tensor '{}'", name);
  return *found;
}

bool TensorBatch::has(std::string_view name, DType dtype) const {
  return std::ranges::any_of(
      specs_, [&](const BatchTensorSpec& spec) { return spec.name == name && spec.dtype == dtype; });
}

TensorBatch::Place TensorBatch::place_of(std::string_view name, DType dtype) const {
  Place place;
  for (const BatchTensorSpec& spec : specs_) {
    if (spec.dtype != dtype) continue;
    place.count = static_cast<size_t>(spec.elements(size_));
    if (spec.name == name) return place;
    place.begin += static_cast<size_t>(spec.elements(capacity_));
  }
  PLIMSOLL_CHECK(false, "the batch has no tensor '{}' of type {}", name, dtype_name(dtype));
}

std::span<int32_t> TensorBatch::ints(std::string_view name) {
  const Place place = place_of(name, DType::kI32);
  return std::span(ints_).subspan(place.begin, place.count);
}

std::span<const int32_t> TensorBatch::ints(std::string_view name) const {
  const Place place = place_of(name, DType::kI32);
  return std::span(ints_).subspan(place.begin, place.count);
}

std::span<float> TensorBatch::floats(std::string_view name) {
  const Place place = place_of(name, DType::kF32);
  return std::span(floats_).subspan(place.begin, place.count);
}

std::span<const float> TensorBatch::floats(std::string_view name) const {
  const Place place = place_of(name, DType::kF32);
  return std::span(floats_).subspan(place.begin, place.count);
}

}  // namespace plimsoll
