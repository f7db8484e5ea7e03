// The two loops that the references of AdamW, Lion, SGD and Adagrad share: one over tensors with states in
// floating point, one over tensors with states in 8 bits (eight_bit.h). Each optimizer supplies the update of
// one element. Internal to the folder. Thread-safe: no state.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "kernels/optimizer/eight_bit.h"
#include "kernels/optimizer/parameter_ref.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

// Updates all elements of all tensors. update(p, g, m, v) returns the new parameter of one element and changes its states m and v, all in
// double. States that the optimizer does not have are passed as 0.
template <typename Args, typename Update>
void update_tensors_ref(UpdateStates states, const Args& args, const Update& update) {
  for (size_t k = 0; k < args.tensors.size(); ++k) {
    const OptimizerTensor& tensor = args.tensors[k];
    const RandomSite noise = noise_of(args, k);
    for (int64_t i = 0; i < tensor.count; ++i) {
      double m = has_m(states) ? tensor.m.load(i) : 0.0;
      double v = has_v(states) ? tensor.v.load(i) : 0.0;
      const double p = update(load_parameter(tensor, i), tensor.grad.load(i), m, v);
      if (has_m(states)) tensor.m.store(i, m);
      if (has_v(states)) store_second_moment(tensor, i, v, noise);
      store_parameter(tensor, i, p, noise);
    }
  }
}

// Updates all tensors whose states are stored in 8 bits. Reads the states of a quantization block as numbers, updates all elements of the
// block, and then rounds the states to 8 bits again. m is signed and v is unsigned, as in bitsandbytes.
template <typename Args, typename Update>
void update_eight_bit_tensors_ref(UpdateStates states, const Args& args, const Update& update) {
  for (size_t k = 0; k < args.tensors.size(); ++k) {
    const OptimizerTensor& tensor = args.tensors[k];
    const EightBitState m_state{tensor.m, tensor.m_absmax, EightBitSign::kSigned};
    const EightBitState v_state{tensor.v, tensor.v_absmax, EightBitSign::kUnsigned};
    const RandomSite noise = noise_of(args, k);
    for (int64_t block = 0; block < eight_bit_blocks(tensor.count); ++block) {
      const int64_t first = block * kEightBitBlock;
      const auto count = static_cast<size_t>(std::min(kEightBitBlock, tensor.count - first));
      std::array<double, kEightBitBlock> m_block{}, v_block{};
      const std::span<double> m(m_block.data(), count), v(v_block.data(), count);
      load_eight_bit_ref(m_state, block, m);
      if (has_v(states)) load_eight_bit_ref(v_state, block, v);
      for (size_t j = 0; j < count; ++j) {
        const int64_t i = first + static_cast<int64_t>(j);
        const double p = update(tensor.param.load(i), tensor.grad.load(i), m[j], v[j]);
        store_parameter(tensor, i, p, noise);
      }
      store_eight_bit_ref(m_state, block, m);
      if (has_v(states)) store_eight_bit_ref(v_state, block, v);
    }
  }
}

}  // namespace plimsoll
