// The two loops that the CPU kernels of AdamW, Lion, SGD and Adagrad share: one over tensors with states in floating point, and one over
// tensors with states in 8 bits (eight_bit.h). Each optimizer supplies the function that updates a contiguous range of fp32 numbers.
// Internal to the folder. Thread-safe: no state.
#pragma once

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/optimizer/eight_bit.h"
#include "kernels/optimizer/piece_cpu.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

// The name of an optimizer, and properties of the tensors that its CPU kernel accepts.
struct CpuUpdate {
  const char* name;  // the name of the optimizer in error messages
  UpdateStates states;
  bool takes_bf16_states = false;
  bool takes_split_parameters = false;
};

// Checks that the kernel supports the types of every tensor of an update whose states are in floating point. Errors: kInternal if not.
template <typename Args>
void check_updated_tensors(const CpuUpdate& kernel, const Args& args) {
  const auto is_state = [&](DType dtype) {
    return dtype == DType::kF32 || (kernel.takes_bf16_states && dtype == DType::kBF16);
  };
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(is_updated_on_cpu(tensor) && (kernel.takes_split_parameters || !tensor.remainder) &&
                       (!has_m(kernel.states) || is_state(tensor.m.dtype)) &&
                       (!has_v(kernel.states) || is_state(tensor.v.dtype)),
                   "the CPU kernel of {} does not support {} weights with {} gradients and optimizer states "
                   "of {} and {}",
                   kernel.name, dtype_name(tensor.param.dtype), dtype_name(tensor.grad.dtype),
                   dtype_name(tensor.m.dtype), dtype_name(tensor.v.dtype));
  }
}

// Returns true if the parameter, its gradient and its states are f32, so that an update needs no buffers.
inline bool is_updated_in_place(UpdateStates states, const OptimizerTensor& tensor) {
  return tensor.param.dtype == DType::kF32 && tensor.grad.dtype == DType::kF32 &&
         (!has_m(states) || tensor.m.dtype == DType::kF32) &&
         (!has_v(states) || tensor.v.dtype == DType::kF32);
}

// Updates all elements of all tensors. update(p, g, m, v, n) must update n elements in fp32 in place; m and v are null if the optimizer has
// no such state. Elements of 16 bits are converted to fp32 in buffers of kTensorGrain elements, which stay in the cache. When they are
// stored again, m is rounded to nearest and v stochastically.
template <typename Args, typename Update>
void update_tensors_cpu(const CpuUpdate& kernel, const Args& args, const Update& update) {
  check_updated_tensors(kernel, args);
  parallel_over_tensors(args.tensors, [&](int64_t, size_t index, int64_t begin, int64_t count) {
    const OptimizerTensor& tensor = args.tensors[index];
    if (is_updated_in_place(kernel.states, tensor)) {
      update(tensor.param.as<float>() + begin, tensor.grad.as<float>() + begin,
             has_m(kernel.states) ? tensor.m.as<float>() + begin : nullptr,
             has_v(kernel.states) ? tensor.v.as<float>() + begin : nullptr, count);
      store_low_copy(tensor, begin, count);
      return;
    }
    float p_buffer[kTensorGrain];
    float g_buffer[kTensorGrain];
    float m_buffer[kTensorGrain];
    float v_buffer[kTensorGrain];
    const RandomSite noise = noise_of(args, index);
    for (int64_t first = begin; first < begin + count; first += kTensorGrain) {
      const int64_t n = std::min(kTensorGrain, begin + count - first);
      float* p = parameter_to_change(tensor, first, n, p_buffer);
      float* m = has_m(kernel.states) ? floats_to_change(tensor.m, first, n, m_buffer) : nullptr;
      float* v = has_v(kernel.states) ? floats_to_change(tensor.v, first, n, v_buffer) : nullptr;
      update(p, floats_of(tensor.grad, first, n, g_buffer), m, v, n);
      if (m != nullptr) narrow_piece(m, tensor.m, first, n);
      if (v == v_buffer) round_piece(v, tensor.v, {noise_of_second_moment(noise), tensor.first}, first, n);
      store_parameter(p, tensor, noise, first, n);
    }
  });
}

// Checks that the types of every tensor are among those that updates with 8-bit states support. Errors: kInternal if not.
template <typename Args>
void check_eight_bit_tensors(const CpuUpdate& kernel, const Args& args) {
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(is_updated_on_cpu(tensor) && !tensor.remainder && tensor.m.dtype == DType::kU8 &&
                       (!has_v(kernel.states) || tensor.v.dtype == DType::kU8),
                   "the CPU kernel of 8-bit {} does not support {} weights with {} gradients and optimizer "
                   "states of {} and {}",
                   kernel.name, dtype_name(tensor.param.dtype), dtype_name(tensor.grad.dtype),
                   dtype_name(tensor.m.dtype), dtype_name(tensor.v.dtype));
  }
}

// Updates all tensors whose states are stored in 8 bits. Reads the states of a quantization block as numbers, updates all elements of the
// block, and then rounds the states to 8 bits again. m is signed and v is unsigned, as in bitsandbytes.
template <typename Args, typename Update>
void update_eight_bit_tensors_cpu(const CpuUpdate& kernel, const Args& args, const Update& update) {
  check_eight_bit_tensors(kernel, args);
  const EightBitMap& m_map = eight_bit_map(EightBitSign::kSigned);
  const EightBitMap& v_map = eight_bit_map(EightBitSign::kUnsigned);
  const bool updates_v = has_v(kernel.states);
  // A task consists of whole grains of kTensorGrain elements (tensor_list.h). The length of a grain must be a multiple of that of a
  // quantization block, so that no block is divided between tasks.
  static_assert(kTensorGrain % kEightBitBlock == 0);
  parallel_over_tensors(args.tensors, [&](int64_t, size_t index, int64_t begin, int64_t count) {
    const OptimizerTensor& tensor = args.tensors[index];
    std::array<float, kEightBitBlock> p_block, g_block, m, v;
    const RandomSite noise = noise_of(args, index);
    for (int64_t first = begin; first < begin + count; first += kEightBitBlock) {
      const int64_t n = std::min(kEightBitBlock, begin + count - first);
      const int64_t block = first / kEightBitBlock;
      uint8_t* m_codes = tensor.m.as<uint8_t>() + first;
      uint8_t* v_codes = updates_v ? tensor.v.as<uint8_t>() + first : nullptr;
      float* m_absmax = tensor.m_absmax.as<float>() + block;
      float* v_absmax = updates_v ? tensor.v_absmax.as<float>() + block : nullptr;
      load_eight_bit_cpu(m_map, m_codes, *m_absmax, m.data(), n);
      if (updates_v) load_eight_bit_cpu(v_map, v_codes, *v_absmax, v.data(), n);
      float* p = parameter_to_change(tensor, first, n, p_block.data());
      update(p, floats_of(tensor.grad, first, n, g_block.data()), m.data(), updates_v ? v.data() : nullptr,
             n);
      store_parameter(p, tensor, noise, first, n);
      *m_absmax = store_eight_bit_cpu(m_map, EightBitSign::kSigned, m.data(), n, m_codes);
      if (updates_v) *v_absmax = store_eight_bit_cpu(v_map, EightBitSign::kUnsigned, v.data(), n, v_codes);
    }
  });
}

}  // namespace plimsoll
