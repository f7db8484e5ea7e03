#include "exec/ceilings.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "base/view.h"

namespace plimsoll {

DType product_type(const PlanRequest& request) {
  return request.precision.activation_dtype.value_or(request.precision.dtype);
}

int64_t ceiling_product_size(int64_t bytes, int64_t scratch_bytes, DType dtype, int64_t most) {
  const int64_t room = (bytes - scratch_bytes) / 3 / dtype_bytes(dtype);
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(std::max<int64_t>(room, 0))));
  const int64_t n = std::min(most, side / 128 * 128);
  return n >= 512 ? n : 0;
}

void fill_with_noise(std::span<std::byte> bytes, DType dtype) {
  const View view{bytes.data(), dtype};
  const int64_t count = std::ssize(bytes) / dtype_bytes(dtype);
  uint64_t state = 0x9E3779B97F4A7C15u;
  for (int64_t i = 0; i < count; ++i) {
    // xorshift64 (Marsaglia 2003): good enough to have no pattern.
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    view.store(i, static_cast<double>(state >> 11) * 0x1p-52 - 1.0);
  }
}

}  // namespace plimsoll
