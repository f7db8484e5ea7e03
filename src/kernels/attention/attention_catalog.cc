#include "kernels/attention/attention_catalog.h"

#include <fmt/format.h>

#include "kernels/catalog/catalog.h"

namespace plimsoll::catalog_rows {
Support attention_fits(const AttentionDims& dims) {
  if (dims.longest <= kAttentionLongest) return {};
  return {false, fmt::format("sequences may have at most {} rows, because dropout has random numbers for no "
                             "more, but the longest has {}",
                             kAttentionLongest, dims.longest)};
}

Support attention_cuda_tiled_fits(const Problem& problem, const AttentionDims& dims) {
  if (dims.head_dim > kAttentionCudaHeadDim) {
    return {false,
            fmt::format("the head size may be at most {}, but is {}", kAttentionCudaHeadDim, dims.head_dim)};
  }
  if (problem.target.sm < 80 && dims.head_dim > 64) {
    return {false, fmt::format("its tiles for a head size of {} do not fit into the 64 KiB of shared memory "
                               "of compute capability {}.{}",
                               dims.head_dim, problem.target.sm / 10, problem.target.sm % 10)};
  }
  if (dims.sequences >= 65535 || dims.heads > 65535 || dims.tokens > INT32_MAX) {
    return {false, fmt::format("the launch grid has room for 65534 sequences, 65535 heads and 2^31 - 1 rows, "
                               "but {}, {} and {} are needed",
                               dims.sequences, dims.heads, dims.tokens)};
  }
  return attention_fits(dims);
}

Support attention_cuda_mma_fits(const Problem& problem, const AttentionDims& dims) {
  if (problem.target.sm < 80) {
    return {false, fmt::format("needs mma.sync of 16 x 8 x 16, which GPUs have from compute capability 8.0 "
                               "on; this GPU has {}.{}{}",
                               problem.target.sm / 10, problem.target.sm % 10,
                               problem.dtype == DType::kBF16 ? " and does not support bf16" : "")};
  }
  if (dims.head_dim % 8 != 0 || dims.head_dim > kAttentionCudaHeadDim) {
    return {false, fmt::format("the head size must be a multiple of 8 and at most {}, but is {}",
                               kAttentionCudaHeadDim, dims.head_dim)};
  }
  return attention_cuda_tiled_fits(problem, dims);
}

namespace {

// Checks the requirements of the kernels that use warpgroup instructions, for 16-bit and for fp32 tensors. A warpgroup multiplies tiles of
// 64 columns. With heads of at most 32 columns half of a tile would be zeros, and mma.sync is faster (attention_cuda.h states the measured
// times).
Support warpgroups_fit(const Problem& problem, const AttentionDims& dims, int64_t widest) {
  const int64_t head_dim = dims.head_dim;
  if (problem.target.sm != 90) {
    return {false,
            fmt::format("needs the wgmma instructions of compute capability 9.0, but this GPU has {}.{}",
                        problem.target.sm / 10, problem.target.sm % 10)};
  }
  if (head_dim <= 32 || head_dim > widest) {
    return {
        false,
        fmt::format(
            "supports head sizes from 33 to {}, because its tiles have 64 columns, but the head size is {}",
            widest, head_dim)};
  }
  return {};
}

}  // namespace

Support attention_cuda_wgmma_fits(const Problem& problem, const AttentionDims& dims) {
  if (Support support = warpgroups_fit(problem, dims, kAttentionCudaHeadDim); !support.ok) {
    return support;
  }
  if (attention_is_of_short_sequences(dims)) {
    return {false,
            "the kernel with mma.sync is faster: sequences have at most 64 rows on average, and its small "
            "tiles leave fewer rows unused"};
  }
  return attention_cuda_mma_fits(problem, dims);
}

Support first_token_attention_cuda_fits(const Problem& problem, const FirstTokenAttentionProblem& attention) {
  if (problem.target.sm != 90) {
    return {false, fmt::format("needs the shared memory of compute capability 9.0, but this GPU has {}.{}",
                               problem.target.sm / 10, problem.target.sm % 10)};
  }
  if (attention.w != problem.dtype) return {false, "needs rows and weights of the same type"};
  if (!first_token_attention_sizes_fit(attention.dims, attention.columns)) {
    return {false, fmt::format("supports 384, 512, 768 or 1024 columns and up to 16 heads of size 32, 64, 96 "
                               "or 128, but there are {} columns and {} heads of size {}",
                               attention.columns, attention.dims.heads, attention.dims.head_dim)};
  }
  return {};
}
int64_t first_token_attention_cuda_scratch(const FirstTokenAttentionProblem& attention) {
  return first_token_attention_cuda_scratch_bytes(attention.dims, attention.columns);
}

Support attention_cuda_tf32_fits(const Problem& problem, const AttentionDims& dims) {
  if (problem.target.fp32_products != Fp32Products::kTf32)
    return {false, "computes in tf32, which the settings do not allow for fp32 operands"};
  if (problem.target.sm < 80) {
    return {false,
            fmt::format("needs tf32, which GPUs have from compute capability 8.0 on; this GPU has {}.{}",
                        problem.target.sm / 10, problem.target.sm % 10)};
  }
  if (dims.head_dim % 4 != 0) {
    return {false, fmt::format("the head size must be a multiple of 4, but is {}", dims.head_dim)};
  }
  return attention_cuda_tiled_fits(problem, dims);
}

Support attention_cuda_tf32_wgmma_fits(const Problem& problem, const AttentionDims& dims) {
  if (Support support = attention_cuda_tf32_fits(problem, dims); !support.ok) return support;
  if (dims.group_heads() != 1) {
    return {false,
            fmt::format("needs one head of keys and values for each of the {} query heads, but there are {}",
                        dims.heads, dims.num_kv_heads())};
  }
  if (dims.window != 0)
    return {false,
            fmt::format("does not support a sliding window, but attention has one of {} rows", dims.window)};
  return warpgroups_fit(problem, dims, 64);
}

Support paged_attention_fits(const PagedAttentionDims& dims) {
  if (dims.kv_heads > 0 && dims.heads % dims.kv_heads == 0) return {};
  return {false, fmt::format("the number of query heads must be a multiple of the number of heads of keys "
                             "and values, but they are {} and {}",
                             dims.heads, dims.kv_heads)};
}
Support paged_attention_cuda_fits(const Problem& problem, const PagedAttentionDims& dims) {
  if (dims.head_dim > kPagedCudaHeadDim) {
    return {false,
            fmt::format("the head size may be at most {}, but is {}", kPagedCudaHeadDim, dims.head_dim)};
  }
  if (dims.tokens > 65535 || dims.heads > 65535) {
    return {
        false,
        fmt::format(
            "the launch grid has room for 65535 rows and 65535 heads, but {} rows and {} heads are needed",
            dims.tokens, dims.heads)};
  }
  if (problem.dtype == DType::kBF16 && problem.target.sm < 80) {
    return {false,
            fmt::format("needs bf16, which GPUs have from compute capability 8.0 on; this GPU has {}.{}",
                        problem.target.sm / 10, problem.target.sm % 10)};
  }
  return paged_attention_fits(dims);
}
int64_t paged_attention_cpu_scratch(const Problem& problem, const PagedAttentionDims& dims) {
  return paged_attention_cpu_scratch_bytes(dims, problem.target.num_threads);
}
int64_t paged_attention_ref_scratch(const PagedAttentionDims& dims) {
  return paged_attention_ref_scratch_bytes(dims);
}
int64_t paged_attention_cuda_scratch(const PagedAttentionDims& dims) {
  return paged_attention_cuda_scratch_bytes(dims);
}

int64_t attention_bwd_cuda_mma_scratch(const AttentionDims& dims) {
  return attention_bwd_cuda_mma_scratch_bytes(dims);
}
int64_t attention_bwd_cuda_tiled_scratch(const AttentionDims& dims) {
  return attention_bwd_cuda_tiled_scratch_bytes(dims);
}
int64_t attention_fwd_cpu_scratch(const Problem& problem, const AttentionDims& dims) {
  return attention_fwd_cpu_scratch_bytes(dims, problem.target.num_threads);
}
int64_t attention_bwd_cpu_scratch(const Problem& problem, const AttentionDims& dims) {
  return attention_bwd_cpu_scratch_bytes(dims, problem.target.num_threads);
}
int64_t attention_fwd_ref_scratch(const AttentionDims& dims) {
  return attention_fwd_ref_scratch_bytes(dims);
}
int64_t attention_bwd_ref_scratch(const AttentionDims& dims) {
  return attention_bwd_ref_scratch_bytes(dims);
}

}  // namespace plimsoll::catalog_rows
