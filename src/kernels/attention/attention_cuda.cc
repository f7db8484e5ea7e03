#include "kernels/attention/attention_cuda.h"

#include <cuda_runtime_api.h>

#include <cmath>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_launch.h"
#include "kernels/attention/attention_schedule.h"
#include "kernels/attention/first_token_attention.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/catalog/kernel_functions.h"

namespace plimsoll {
namespace {

int compute_capability() {
  int device = 0, major = 0, minor = 0;
  PLIMSOLL_CUDA(cudaGetDevice(&device));
  PLIMSOLL_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  PLIMSOLL_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

bool starts_at_multiples(const void* data, int64_t stride, int64_t element_bytes, int64_t elements) {
  return stride % elements == 0 && reinterpret_cast<uintptr_t>(data) % (element_bytes * elements) == 0;
}

void check_limits(const AttentionDims& dims, DType dtype, const int64_t* rng, double dropout) {
  PLIMSOLL_CHECK(dims.head_dim <= kAttentionCudaHeadDim,
                 "the head size of attention on a GPU may be at most {}, but is {}", kAttentionCudaHeadDim,
                 dims.head_dim);
  PLIMSOLL_CHECK(dims.sequences < 65535 && dims.heads <= 65535 && dims.tokens <= INT32_MAX,
                 "attention on a GPU supports at most 2^31 - 1 rows, 65534 sequences and 65535 heads, but "
                 "there are {}, {} and {}",
                 dims.tokens, dims.sequences, dims.heads);
  PLIMSOLL_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16,
                 "attention on a GPU supports f32, bf16 and f16, not {}", dtype_name(dtype));
  PLIMSOLL_CHECK(dropout == 0 || rng != nullptr,
                 "attention with dropout {} needs the random state `rng`, but it is null", dropout);
}

// Fills in the kernel arguments that the forward and the backward pass have in common.
AttentionKernelArgs kernel_args(const AttentionDims& dims, const AttentionOptions& options,
                                const ConstRows& q, const ConstRows& k, const ConstRows& v,
                                ConstView cu_seqlens, const int64_t* rng) {
  AttentionKernelArgs args;
  args.q = q.view.data, args.q_stride = q.row_stride;
  args.k = k.view.data, args.k_stride = k.row_stride;
  args.v = v.view.data, args.v_stride = v.row_stride;
  args.cu_seqlens = cu_seqlens.as<int32_t>();
  args.dropout = options.dropout > 0;
  if (args.dropout) {
    args.rng = rng;
    args.site = options.random.site;
    args.threshold = dropout_threshold(options.dropout);
    args.keep_scale = dropout_scale(options.dropout);
  }
  args.scale = static_cast<float>(options.scale);
  args.tokens = static_cast<int>(dims.tokens);
  args.sequences = static_cast<int>(dims.sequences);
  args.longest = static_cast<int>(dims.longest);
  args.heads = static_cast<int>(dims.heads);
  args.all_heads = static_cast<int>(options.all_heads > 0 ? options.all_heads : dims.heads);
  args.first_head = static_cast<int>(options.first_head);
  args.head_dim = static_cast<int>(dims.head_dim);
  args.kv_heads = static_cast<int>(dims.num_kv_heads());
  args.group = static_cast<int>(dims.group_heads());
  // A window as long as the longest sequence hides no row. It is replaced by 0 (no window), so that the kernels need not compare distances
  // with it.
  args.window = dims.window < dims.longest ? static_cast<int>(dims.window) : 0;
  args.causal = options.mask == AttentionMask::kCausal;
  args.dtype = q.view.dtype;
  return args;
}

// Returns true if every row of every head of the inputs and outputs starts at a multiple of `elements` elements, as copies of whole vectors
// require.
bool rows_start_at_multiples(const AttentionKernelArgs& args, int64_t elements) {
  const int64_t bytes = dtype_bytes(args.dtype);
  const int64_t columns = int64_t{args.heads} * args.head_dim;
  return args.head_dim % elements == 0 && starts_at_multiples(args.q, args.q_stride, bytes, elements) &&
         starts_at_multiples(args.k, args.k_stride, bytes, elements) &&
         starts_at_multiples(args.v, args.v_stride, bytes, elements) &&
         starts_at_multiples(args.o, columns, bytes, elements) &&
         starts_at_multiples(args.d_o, columns, bytes, elements) &&
         starts_at_multiples(args.d_q, args.d_q_stride, bytes, elements) &&
         starts_at_multiples(args.d_k, args.d_k_stride, bytes, elements) &&
         starts_at_multiples(args.d_v, args.d_v_stride, bytes, elements);
}

// Returns the numbers of rows per thread block of the mma.sync kernels that are fastest for these sizes. They do not change any bit of the
// results.
AttentionBlockRows block_rows(const AttentionDims& dims) {
  if (attention_is_of_short_sequences(dims)) return {64, 64, 64};
  return {};
}

// Returns true if the kernels with warpgroup instructions are in this build and the GPU supports them. On an H200, both passes over 32
// sequences of 512 rows and 16 heads of 64 in bf16 take 0.474 ms with warpgroups and 0.594 ms with mma.sync; with dropout they take 0.646
// and 0.742 ms.
bool takes_wgmma() {
#ifdef PLIMSOLL_HAS_WGMMA
  return compute_capability() == 90;
#else
  return false;
#endif
}

// The warpgroup kernels for fp32 tensors support neither windows, nor heads that share keys and values, nor heads wider than 64.
bool takes_tf32_wgmma(const AttentionDims& dims) {
  return dims.group_heads() == 1 && dims.window == 0 && dims.head_dim <= 64 && takes_wgmma();
}

void check_mma(const AttentionKernelArgs& args) {
  PLIMSOLL_CHECK(args.dtype != DType::kF32,
                 "attention with mma.sync or wgmma needs 16-bit tensors, but they are {}",
                 dtype_name(args.dtype));
  PLIMSOLL_CHECK(rows_start_at_multiples(args, 8),
                 "the tensor-core kernels of attention copy 16 bytes at a time, so every head of every row "
                 "must start at a multiple of 8 elements, but heads have {} elements and the rows of q, k "
                 "and v are {}, {} and {} elements apart",
                 args.head_dim, args.q_stride, args.k_stride, args.v_stride);
}

void check_tf32(const AttentionKernelArgs& args) {
  PLIMSOLL_CHECK(args.dtype == DType::kF32, "attention in tf32 needs f32 tensors, but they are {}",
                 dtype_name(args.dtype));
  PLIMSOLL_CHECK(
      args.vectors,
      "the tf32 kernels of attention copy 16 bytes at a time, so every head of every row must start at a "
      "multiple of 4 elements, but heads have {} elements and the rows of q, k and v are {}, {} and {} "
      "elements apart",
      args.head_dim, args.q_stride, args.k_stride, args.v_stride);
}

AttentionKernelArgs checked(const AttentionFwdArgs& args, const int64_t* rng) {
  check_attention_device_args(args, 0);
  check_limits(args.dims, args.q.view.dtype, rng, args.options.dropout);
  AttentionKernelArgs kernel =
      kernel_args(args.dims, args.options, args.q, args.k, args.v, args.cu_seqlens, rng);
  kernel.o = args.o.data;
  kernel.lse = args.lse ? args.lse.as<float>() : nullptr;
  kernel.vectors = rows_start_at_multiples(kernel, 4);
  return kernel;
}

AttentionKernelArgs checked(const AttentionBwdArgs& args, const int64_t* rng, int64_t scratch_bytes) {
  check_attention_device_args(args, scratch_bytes);
  check_limits(args.dims, args.q.view.dtype, rng, args.options.dropout);
  AttentionKernelArgs kernel =
      kernel_args(args.dims, args.options, args.q, args.k, args.v, args.cu_seqlens, rng);
  kernel.o = const_cast<void*>(args.o.data);
  kernel.lse = const_cast<float*>(args.lse.as<float>());
  kernel.d_o = args.d_o.data;
  kernel.d_q = args.d_q.view.data, kernel.d_q_stride = args.d_q.row_stride;
  kernel.d_k = args.d_k.view.data, kernel.d_k_stride = args.d_k.row_stride;
  kernel.d_v = args.d_v.view.data, kernel.d_v_stride = args.d_v.row_stride;
  auto* scratch = static_cast<std::byte*>(args.scratch.data);
  kernel.delta = reinterpret_cast<float*>(scratch);
  const int64_t delta_bytes = attention_cuda_delta_bytes(args.dims);
  if (kernel.dropout && scratch_bytes > delta_bytes) {
    kernel.keep = reinterpret_cast<uint32_t*>(scratch + delta_bytes);
  }
  kernel.vectors = rows_start_at_multiples(kernel, 4);
  return kernel;
}

using Check = void (*)(const AttentionKernelArgs&);

template <typename Launch>
void run(const AttentionFwdArgs& args, const int64_t* rng, Check check, const Launch& launch) {
  const AttentionKernelArgs kernel = checked(args, rng);
  check(kernel);
  if (kernel.tokens > 0) launch(kernel);
}
template <typename Launch>
void run(const AttentionBwdArgs& args, const int64_t* rng, Check check, const Launch& launch) {
  const AttentionKernelArgs kernel = checked(args, rng, attention_bwd_cuda_mma_scratch_bytes(args.dims));
  check(kernel);
  if (kernel.tokens > 0) launch(kernel);
}

// Runs the mma.sync kernels. `rows` is the number of rows per thread block for 16-bit tensors. For fp32 tensors the number is fixed.
void run_mma(const AttentionFwdArgs& args, const int64_t* rng, Check check, const AttentionBlockRows& rows,
             CudaStream stream) {
  run(args, rng, check,
      [&](const AttentionKernelArgs& kernel) { launch_attention_fwd_mma(kernel, rows.forward, stream); });
}
void run_mma(const AttentionBwdArgs& args, const int64_t* rng, Check check, const AttentionBlockRows& rows,
             CudaStream stream) {
  run(args, rng, check, [&](const AttentionKernelArgs& kernel) {
    launch_attention_dq_mma(kernel, rows.d_q, stream);
    launch_attention_dkv_mma(kernel, rows.d_kv, stream);
  });
}

}  // namespace

void attention_fwd_cuda_tiled(const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream) {
  const AttentionKernelArgs kernel = checked(args, rng);
  if (kernel.tokens > 0) launch_attention_fwd_tiled(kernel, stream);
}

void attention_bwd_cuda_tiled(const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream) {
  const AttentionKernelArgs kernel = checked(args, rng, attention_bwd_cuda_tiled_scratch_bytes(args.dims));
  if (kernel.tokens > 0) launch_attention_bwd_tiled(kernel, stream);
}

void attention_fwd_cuda_mma_of(const AttentionFwdArgs& args, const int64_t* rng,
                               const AttentionBlockRows& rows, CudaStream stream) {
  run_mma(args, rng, check_mma, rows, stream);
}

void attention_bwd_cuda_mma_of(const AttentionBwdArgs& args, const int64_t* rng,
                               const AttentionBlockRows& rows, CudaStream stream) {
  run_mma(args, rng, check_mma, rows, stream);
}

void attention_fwd_cuda_mma(const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream) {
  attention_fwd_cuda_mma_of(args, rng, block_rows(args.dims), stream);
}

void attention_bwd_cuda_mma(const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream) {
  attention_bwd_cuda_mma_of(args, rng, block_rows(args.dims), stream);
}

void attention_fwd_cuda_wgmma(const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream) {
  if (!takes_wgmma()) return attention_fwd_cuda_mma(args, rng, stream);
#ifdef PLIMSOLL_HAS_WGMMA
  run(args, rng, check_mma,
      [&](const AttentionKernelArgs& kernel) { launch_attention_fwd_wgmma(kernel, stream); });
#endif
}

void attention_bwd_cuda_wgmma(const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream) {
  if (!takes_wgmma()) return attention_bwd_cuda_mma(args, rng, stream);
#ifdef PLIMSOLL_HAS_WGMMA
  run(args, rng, check_mma, [&](const AttentionKernelArgs& kernel) {
    launch_attention_dq_wgmma(kernel, stream);
    launch_attention_dkv_wgmma(kernel, stream);
  });
#endif
}

void attention_fwd_cuda_tf32(const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream) {
  run_mma(args, rng, check_tf32, {}, stream);
}

void attention_bwd_cuda_tf32(const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream) {
  run_mma(args, rng, check_tf32, {}, stream);
}

void attention_fwd_cuda_tf32_wgmma(const AttentionFwdArgs& args, const int64_t* rng, CudaStream stream) {
  if (!takes_tf32_wgmma(args.dims)) return attention_fwd_cuda_tf32(args, rng, stream);
#ifdef PLIMSOLL_HAS_WGMMA
  run(args, rng, check_tf32,
      [&](const AttentionKernelArgs& kernel) { launch_attention_fwd_wgmma_tf32(kernel, stream); });
#endif
}

void attention_bwd_cuda_tf32_wgmma(const AttentionBwdArgs& args, const int64_t* rng, CudaStream stream) {
  if (!takes_tf32_wgmma(args.dims)) return attention_bwd_cuda_tf32(args, rng, stream);
#ifdef PLIMSOLL_HAS_WGMMA
  run(args, rng, check_tf32, [&](const AttentionKernelArgs& kernel) {
    launch_attention_dq_wgmma_tf32(kernel, stream);
    launch_attention_dkv_wgmma_tf32(kernel, stream);
  });
#endif
}

namespace {

// Returns the CUDA function of the implementation with this name in the kernel catalog.
template <typename Function>
Function* function_of(std::string_view implementation) {
#define PLIMSOLL_KERNEL PLIMSOLL_CUDA_FUNCTION
  static const KernelFunction kFunctions[] = {
#include "kernels/attention/attention_catalog.inc"
  };
#undef PLIMSOLL_KERNEL
  const KernelFunction* function = find_function(kFunctions, implementation);
  PLIMSOLL_CHECK(function != nullptr, "the kernel '{}' is not a CUDA implementation of attention",
                 implementation);
  return function->as<Function>();
}

}  // namespace

AttentionForward* attention_fwd_cuda_of(std::string_view implementation, const AttentionDims& dims) {
  const bool is_replaced =
      implementation == "attention_fwd_cuda_wgmma" && attention_is_of_short_sequences(dims);
  return function_of<AttentionForward>(is_replaced ? "attention_fwd_cuda_mma" : implementation);
}

AttentionBackward* attention_bwd_cuda_of(std::string_view implementation, const AttentionDims& dims) {
  const bool is_replaced =
      implementation == "attention_bwd_cuda_wgmma" && attention_is_of_short_sequences(dims);
  return function_of<AttentionBackward>(is_replaced ? "attention_bwd_cuda_mma" : implementation);
}

}  // namespace plimsoll
