// Reads and writes an element of a parameter, which may be split into two halves (tensor_list.h), its low-precision copy, and a second
// moment, for the reference implementations of this folder. Internal to the folder. Thread-safe: pure functions of their views.
#pragma once

#include "base/split_f32.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

// Returns an element of the parameter in double. If the parameter is split, joins its bf16 half and its remainder.
inline double load_parameter(const OptimizerTensor& tensor, int64_t i) {
  if (!tensor.remainder) return tensor.param.load(i);
  const uint16_t high = tensor.param.as<BF16>()[i].bits;
  return static_cast<double>(join_f32({high, static_cast<const uint16_t*>(tensor.remainder.data)[i]}));
}

// Stores an element of a parameter. Rounds it once to the type of the parameter (to fp32 if the parameter is split), and then the result to
// the low-precision copy. If the parameter is stored only in bf16, rounds it first to fp32 and then stochastically to bf16.
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

// Stores a second moment; in bf16 it is first rounded to fp32 and then, stochastically, to bf16.
inline void store_second_moment(const OptimizerTensor& tensor, int64_t i, double value,
                                const RandomSite& noise) {
  if (tensor.v.dtype != DType::kBF16) {
    tensor.v.store(i, value);
    return;
  }
  const uint16_t number = random_half(noise_of_second_moment(noise), static_cast<uint64_t>(tensor.first + i));
  tensor.v.as<BF16>()[i].bits = round_stochastically(static_cast<float>(value), number);
}

}  // namespace plimsoll
