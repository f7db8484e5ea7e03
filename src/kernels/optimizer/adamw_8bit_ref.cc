#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/optimizer/adamw_8bit.h"
#include "kernels/optimizer/parameter_ref.h"

namespace plimsoll {
namespace {

void update_block(const OptimizerTensor& tensor, int64_t block, const AdamwCoefficients& c, double epsilon,
                  const RandomSite& noise) {
  const EightBitState m_state{tensor.m, tensor.m_absmax, EightBitSign::kSigned};
  const EightBitState v_state{tensor.v, tensor.v_absmax, EightBitSign::kUnsigned};
  const int64_t first = block * kEightBitBlock;
  const auto count = static_cast<size_t>(std::min(kEightBitBlock, tensor.count - first));
  std::array<double, kEightBitBlock> m_block, v_block;
  const std::span<double> m(m_block.data(), count), v(v_block.data(), count);
  load_eight_bit_ref(m_state, block, m);
  load_eight_bit_ref(v_state, block, v);
  for (size_t k = 0; k < count; ++k) {
    const int64_t i = first + static_cast<int64_t>(k);
    const double g = c.clip * tensor.grad.load(i);
    const double p = tensor.param.load(i);
    m[k] += c.one_minus_beta1 * (g - m[k]);
    v[k] += c.one_minus_beta2 * (g * g - v[k]);
    const double denominator = std::sqrt(v[k]) * c.inverse_sqrt_bc2 + epsilon;
    store_parameter(tensor, i, p - c.decay * p - c.step_size * m[k] / denominator, noise);
  }
  store_eight_bit_ref(m_state, block, m);
  store_eight_bit_ref(v_state, block, v);
}

}  // namespace

void adamw_8bit_ref(const AdamwArgs& args) {
  if (!update_allowed(args.finite)) return;
  const AdamwCoefficients c = adamw_coefficients(args);
  for (size_t k = 0; k < args.tensors.size(); ++k) {
    const OptimizerTensor& tensor = args.tensors[k];
    for (int64_t block = 0; block < eight_bit_blocks(tensor.count); ++block) {
      update_block(tensor, block, c, args.epsilon, noise_of(args, k));
    }
  }
}

}  // namespace plimsoll
