#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/lion_8bit.h"
#include "kernels/optimizer/piece_cpu.h"
#include "kernels/optimizer/update_piece_cpu.h"

namespace plimsoll {

void lion_8bit_cpu(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  const LionCoefficients k = lion_coefficients(args);
  const LionPieceFunction piece_function = lion_piece_cpu();
  const EightBitMap& map = eight_bit_map(EightBitSign::kSigned);
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(is_updated_on_cpu(tensor) && !tensor.remainder && tensor.m.dtype == DType::kU8,
                   "8-bit Lion of {} weights, {} gradients, {} momentum", dtype_name(tensor.param.dtype),
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
      piece_function(LionPiece{.lr = static_cast<float>(k.lr),
                               .decay = static_cast<float>(k.decay),
                               .beta1 = static_cast<float>(k.beta1),
                               .one_minus_beta1 = static_cast<float>(1.0 - k.beta1),
                               .one_minus_beta2 = static_cast<float>(1.0 - k.beta2),
                               .clip = static_cast<float>(k.clip),
                               .p = p,
                               .g = floats_of(tensor.grad, first, n, g.data()),
                               .m = m.data()},
                     n);
      store_parameter(p, tensor, noise, first, n);
      absmax = store_eight_bit_cpu(map, EightBitSign::kSigned, m.data(), n, codes);
    }
  });
}

}  // namespace plimsoll
