// The walk of updates with one state in 8 bits, of Lion, SGD and Adagrad: a block of 256 elements becomes
// numbers, all of them are updated, and the state is rounded back. The state is `m` of a tensor, with the
// signed numbers of eight_bit.h whatever it is, as bitsandbytes has it. Internal to the folder. Thread-safe:
// no state.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "kernels/optimizer/eight_bit.h"
#include "kernels/optimizer/parameter_ref.h"
#include "kernels/optimizer/piece_cpu.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

// update(p, g, m): the new parameter of one element, from what is in memory, in double; it changes m.
template <typename Args, typename Update>
void update_one_state_8bit_ref(const Args& args, const Update& update) {
  for (size_t index = 0; index < args.tensors.size(); ++index) {
    const OptimizerTensor& tensor = args.tensors[index];
    const EightBitState state{tensor.m, tensor.m_absmax, EightBitSign::kSigned};
    const RandomSite noise = noise_of(args, index);
    for (int64_t block = 0; block < eight_bit_blocks(tensor.count); ++block) {
      const int64_t first = block * kEightBitBlock;
      std::array<double, kEightBitBlock> m_block;
      const std::span<double> m(m_block.data(),
                                static_cast<size_t>(std::min(kEightBitBlock, tensor.count - first)));
      load_eight_bit_ref(state, block, m);
      for (size_t j = 0; j < m.size(); ++j) {
        const int64_t i = first + static_cast<int64_t>(j);
        store_parameter(tensor, i, update(tensor.param.load(i), tensor.grad.load(i), m[j]), noise);
      }
      store_eight_bit_ref(state, block, m);
    }
  }
}

// update(p, g, m, n): n elements in fp32, in place.
template <typename Args, typename Update>
void update_one_state_8bit_cpu(const char* name, const Args& args, const Update& update) {
  const EightBitMap& map = eight_bit_map(EightBitSign::kSigned);
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(is_updated_on_cpu(tensor) && !tensor.remainder && tensor.m.dtype == DType::kU8,
                   "8-bit {} of {} weights, {} gradients, {} states", name, dtype_name(tensor.param.dtype),
                   dtype_name(tensor.grad.dtype), dtype_name(tensor.m.dtype));
  }
  static_assert(kTensorGrain % kEightBitBlock == 0);  // pieces start where blocks start
  parallel_over_tensors(args.tensors, [&](int64_t, size_t index, int64_t begin, int64_t count) {
    const OptimizerTensor& tensor = args.tensors[index];
    std::array<float, kEightBitBlock> p_block, m, g;
    const RandomSite noise = noise_of(args, index);
    for (int64_t first = begin; first < begin + count; first += kEightBitBlock) {
      const int64_t n = std::min(kEightBitBlock, begin + count - first);
      uint8_t* codes = tensor.m.as<uint8_t>() + first;
      float& absmax = tensor.m_absmax.as<float>()[first / kEightBitBlock];
      load_eight_bit_cpu(map, codes, absmax, m.data(), n);
      float* p = parameter_to_change(tensor, first, n, p_block.data());
      update(p, floats_of(tensor.grad, first, n, g.data()), m.data(), n);
      store_parameter(p, tensor, noise, first, n);
      absmax = store_eight_bit_cpu(map, EightBitSign::kSigned, m.data(), n, codes);
    }
  });
}

}  // namespace plimsoll
