#include "kernels/matmul/tensor_map.h"

#include <cuda_runtime_api.h>

#include "base/check.h"
#include "device/cuda/cuda_error.h"

namespace plimsoll {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// Returns a function of the CUDA driver. The program is not linked with the driver library, so the CUDA runtime looks up the function.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  PLIMSOLL_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                 cudaEnableDefault, &found));
  if (function == nullptr || found != cudaDriverEntryPointSuccess)
    throw_error(ErrorCode::kDevice,
                "the driver has no function cuTensorMapEncodeTiled; install a driver for CUDA 12.0 or later");
  return reinterpret_cast<Encode>(function);
}

}  // namespace

CUtensorMap tensor_map(const void* data, DType dtype, int64_t rows, int64_t columns, int box_rows) {
  static const Encode encode = find_encode();
  CUtensorMap map;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(columns * dtype_bytes(dtype))};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result = encode(
      &map, dtype == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
      const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw_error(ErrorCode::kDevice,
                "the CUDA driver cannot describe the matrix {} [{}, {}] at {} for the tensor memory "
                "accelerator (cuTensorMapEncodeTiled returned {})",
                dtype_name(dtype), rows, columns, data, static_cast<int>(result));
  }
  return map;
}

}  // namespace plimsoll
