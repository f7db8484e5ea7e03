// Converts fp32 numbers to the element types of a GGUF file.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/dtype.h"
#include "io/gguf/gguf_file.h"

namespace plimsoll {
namespace {

constexpr int64_t kQ8BlockBytes = 2 + kGgufBlock;
constexpr float kLargestF16 = 65504.0f;
// The smallest number that f16 rounds to infinity.
constexpr float kInfinityOfF16 = 65520.0f;

void encode_q8_block(const float* values, std::byte* out) {
  float largest = 0.0f;
  for (int64_t i = 0; i < kGgufBlock; ++i) largest = std::max(largest, std::fabs(values[i]));
  const float scale = largest / 127.0f;
  // If all numbers of a block are tiny, the reciprocal of the scale is infinite and the scale becomes zero in f16, so the integers are
  // set to zero.
  const float reciprocal = std::isfinite(1.0f / scale) ? 1.0f / scale : 0.0f;
  const uint16_t stored_scale = f32_to_f16(scale);
  std::memcpy(out, &stored_scale, sizeof(stored_scale));
  for (int64_t i = 0; i < kGgufBlock; ++i)
    out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(values[i] * reciprocal)));
}

}  // namespace

int64_t gguf_row_bytes(GgufType type, int64_t columns) {
  switch (type) {
    case GgufType::kF32:
      return 4 * columns;
    case GgufType::kF16:
    case GgufType::kBF16:
      return 2 * columns;
    case GgufType::kQ8_0:
      PLIMSOLL_CHECK(columns % kGgufBlock == 0, "a row of {} elements does not consist of complete blocks",
                     columns);
      return columns / kGgufBlock * kQ8BlockBytes;
  }
  return 0;
}

int64_t encode_gguf(GgufType type, std::span<const float> values, std::span<std::byte> bytes) {
  PLIMSOLL_CHECK(std::ssize(bytes) == gguf_row_bytes(type, std::ssize(values)), "{} bytes for {} elements",
                 bytes.size(), values.size());
  const auto is_storable = [type](float value) {
    if (type == GgufType::kF16) return std::fabs(value) < kInfinityOfF16;
    if (type == GgufType::kQ8_0) return std::fabs(value) <= 127.0f * kLargestF16;
    return std::isfinite(value);
  };
  const auto bad = std::ranges::find_if_not(values, is_storable);
  if (bad != values.end()) return bad - values.begin();
  switch (type) {
    case GgufType::kF32:
      std::memcpy(bytes.data(), values.data(), bytes.size());
      break;
    case GgufType::kF16:
    case GgufType::kBF16:
      for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t bits = type == GgufType::kF16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
        std::memcpy(bytes.data() + 2 * i, &bits, sizeof(bits));
      }
      break;
    case GgufType::kQ8_0:
      for (int64_t block = 0; block < std::ssize(values) / kGgufBlock; ++block)
        encode_q8_block(values.data() + block * kGgufBlock, bytes.data() + block * kQ8BlockBytes);
      break;
  }
  return -1;
}

}  // namespace plimsoll
