// How the references of this folder read and write a parameter, whole or split, and its copy. Internal to the
// folder. Thread-safe: pure functions of their views.
#pragma once

#include "base/split_f32.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

inline double load_parameter(const OptimizerTensor& tensor, int64_t i) {
  if (!tensor.remainder) return tensor.param.load(i);
  const uint16_t high = tensor.param.as<BF16>()[i].bits;
  return static_cast<double>(join_f32({high, static_cast<const uint16_t*>(tensor.remainder.data)[i]}));
}

// Rounds once to the parameter's type, fp32 for a split one, and from there to the copy; a parameter in bf16
// alone by way of fp32, with the tensor's noise.
inline void store_parameter(const OptimizerTensor& tensor, int64_t i, double value, const RandomSite& noise) {
  if (rounds_stochastically(tensor)) {
    const uint16_t number = random_half(noise, static_cast<uint64_t>(tensor.first + i));
    tensor.param.as<BF16>()[i].bits = round_stochastically(static_cast<float>(value), number);
    return;
  }
  if (tensor.remainder) {
    const SplitF32 parts = split_f32(static_cast<float>(value));
    tensor.param.as<BF16>()[i].bits = parts.high;
    static_cast<uint16_t*>(tensor.remainder.data)[i] = parts.low;
    return;
  }
  tensor.param.store(i, value);
  if (!tensor.low) return;
  const double rounded = tensor.param.load(i);
  if (tensor.low.dtype == DType::kBF16) {
    tensor.low.as<BF16>()[i].bits = split_f32(static_cast<float>(rounded)).high;
  } else {
    tensor.low.store(i, rounded);
  }
}

}  // namespace plimsoll
