#include "kernels/quantization/quantization.h"

#include "kernels/element_wise/testing/cuda_cases.h"
#include "kernels/quantization/testing/quantization_cases.h"

namespace plimsoll::test {
namespace {

// Copies one of the matrix's arrays into a buffer that can be uploaded to the GPU.
GuardedBuffer buffer_of(const char* name, DType dtype, const void* data, size_t count) {
  GuardedBuffer buffer(name, dtype, static_cast<int64_t>(count));
  std::memcpy(buffer.view().data, data, count * static_cast<size_t>(dtype_bytes(dtype)));
  return buffer;
}

TEST(DequantizeCuda, IsTheReferenceBitForBit) {
  const int checked = for_each_quantized_matrix([](Quantized& q) {
    const int64_t n = q.rows * q.columns;
    GuardedBuffer codes = buffer_of("codes", DType::kU8, q.codes.data(), q.codes.size());
    GuardedBuffer scales =
        q.is_double() ? buffer_of("scales", DType::kU8, q.scales.data(), q.scales.size())
                      : buffer_of("scales", DType::kF32, q.float_scales.data(), q.float_scales.size());
    GuardedBuffer second =
        buffer_of("second scales", DType::kF32, q.second_scales.data(), q.second_scales.size());
    GuardedBuffer offsets = buffer_of("offsets", DType::kF32, q.offsets.data(), q.offsets.size());
    for (const DType dtype : cuda_types()) {
      GuardedBuffer want("want", dtype, n), w("w", dtype, n);
      dequantize_ref(q.args(want.view()));
      Twins gpu;
      DequantizeArgs args = q.args(gpu(w));
      args.codes = gpu(codes);
      args.scales = gpu(scales);
      if (q.is_double()) {
        args.second_scales = gpu(second);
        args.offsets = gpu(offsets);
      }
      run_twice(gpu, {&w}, [&] { dequantize_cuda(args, nullptr); });
      EXPECT_TRUE(compare_bits(w, want).ok()) << compare_bits(w, want);
    }
  });
  EXPECT_EQ(checked, 25);
}

}  // namespace
}  // namespace plimsoll::test
