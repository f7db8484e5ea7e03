#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/optimizer/adamw_8bit.h"
#include "kernels/optimizer/piece_cpu.h"
#include "kernels/optimizer/update_piece_cpu.h"

namespace plimsoll {

void adamw_8bit_cpu(const AdamwArgs& args) {
  if (!update_allowed(args.finite)) return;
  const AdamwCoefficients c = adamw_coefficients(args);
  const AdamwPieceFunction piece_function = adamw_piece_cpu();
  const EightBitMap& m_map = eight_bit_map(EightBitSign::kSigned);
  const EightBitMap& v_map = eight_bit_map(EightBitSign::kUnsigned);
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(is_updated_on_cpu(tensor) && !tensor.remainder && tensor.m.dtype == DType::kU8 &&
                       tensor.v.dtype == DType::kU8,
                   "8-bit AdamW of {} weights, {} gradients, {} and {} moments",
                   dtype_name(tensor.param.dtype), dtype_name(tensor.grad.dtype), dtype_name(tensor.m.dtype),
                   dtype_name(tensor.v.dtype));
  }
  static_assert(kTensorGrain % kEightBitBlock == 0);  // pieces start where blocks start
  parallel_over_tensors(args.tensors, [&](int64_t, size_t index, int64_t begin, int64_t count) {
    const OptimizerTensor& tensor = args.tensors[index];
    std::array<float, kEightBitBlock> p_block, m, v, g;
    const RandomSite noise = noise_of(args, index);
    for (int64_t first = begin; first < begin + count; first += kEightBitBlock) {
      const int64_t n = std::min(kEightBitBlock, begin + count - first);
      const int64_t block = first / kEightBitBlock;
      uint8_t* m_codes = tensor.m.as<uint8_t>() + first;
      uint8_t* v_codes = tensor.v.as<uint8_t>() + first;
      float& m_absmax = tensor.m_absmax.as<float>()[block];
      float& v_absmax = tensor.v_absmax.as<float>()[block];
      load_eight_bit_cpu(m_map, m_codes, m_absmax, m.data(), n);
      load_eight_bit_cpu(v_map, v_codes, v_absmax, v.data(), n);
      float* p = parameter_to_change(tensor, first, n, p_block.data());
      piece_function(AdamwPiece{.decay = static_cast<float>(c.decay),
                                .step_size = static_cast<float>(c.step_size),
                                .inverse_sqrt_bc2 = static_cast<float>(c.inverse_sqrt_bc2),
                                .one_minus_beta1 = static_cast<float>(c.one_minus_beta1),
                                .one_minus_beta2 = static_cast<float>(c.one_minus_beta2),
                                .clip = static_cast<float>(c.clip),
                                .epsilon = static_cast<float>(args.epsilon),
                                .p = p,
                                .g = floats_of(tensor.grad, first, n, g.data()),
                                .m = m.data(),
                                .v = v.data()},
                     n);
      store_parameter(p, tensor, noise, first, n);
      m_absmax = store_eight_bit_cpu(m_map, EightBitSign::kSigned, m.data(), n, m_codes);
      v_absmax = store_eight_bit_cpu(v_map, EightBitSign::kUnsigned, v.data(), n, v_codes);
    }
  });
}

}  // namespace plimsoll
