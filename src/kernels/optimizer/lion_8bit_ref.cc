#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/lion_8bit.h"
#include "kernels/optimizer/parameter_ref.h"

namespace plimsoll {
namespace {

void update_block(const OptimizerTensor& tensor, int64_t block, const LionCoefficients& k,
                  const RandomSite& noise) {
  const EightBitState state{tensor.m, tensor.m_absmax, EightBitSign::kSigned};
  const int64_t first = block * kEightBitBlock;
  const auto count = static_cast<size_t>(std::min(kEightBitBlock, tensor.count - first));
  std::array<double, kEightBitBlock> m_block;
  const std::span<double> m(m_block.data(), count);
  load_eight_bit_ref(state, block, m);
  for (size_t j = 0; j < count; ++j) {
    const int64_t i = first + static_cast<int64_t>(j);
    const double g = k.clip * tensor.grad.load(i);
    const double p = tensor.param.load(i);
    const double c = k.beta1 * m[j] + (1.0 - k.beta1) * g;
    double sign = c;  // 0 and NaN are their own signs
    if (c > 0.0) sign = 1.0;
    if (c < 0.0) sign = -1.0;
    m[j] += (1.0 - k.beta2) * (g - m[j]);
    store_parameter(tensor, i, p - k.decay * p - k.lr * sign, noise);
  }
  store_eight_bit_ref(state, block, m);
}

}  // namespace

void lion_8bit_ref(const LionArgs& args) {
  if (!update_allowed(args.finite)) return;
  const LionCoefficients k = lion_coefficients(args);
  for (size_t index = 0; index < args.tensors.size(); ++index) {
    const OptimizerTensor& tensor = args.tensors[index];
    for (int64_t block = 0; block < eight_bit_blocks(tensor.count); ++block) {
      update_block(tensor, block, k, noise_of(args, index));
    }
  }
}

}  // namespace plimsoll
