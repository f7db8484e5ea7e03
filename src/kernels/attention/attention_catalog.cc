#include "kernels/attention/attention_catalog.h"

#include <fmt/format.h>

#include "kernels/catalog/catalog.h"

namespace plimsoll::catalog_rows {
Support attention_fits(const AttentionDims& dims) {
  if (dims.longest <= kAttentionLongest) return {};
  return {false, fmt::format("a sequence of {} rows is longer than the {} that dropout can number",
                             dims.longest, kAttentionLongest)};
}

Support attention_cuda_tiled_fits(const Problem& problem, const AttentionDims& dims) {
  if (dims.head_dim > kAttentionCudaHeadDim) {
    return {false, fmt::format("a head size of {} is more than {}", dims.head_dim, kAttentionCudaHeadDim)};
  }
  if (problem.target.sm < 80 && dims.head_dim > 64) {
    return {false, fmt::format("tiles of a head size of {} do not fit the 64 KiB of shared memory of compute "
                               "capability {}.{}",
                               dims.head_dim, problem.target.sm / 10, problem.target.sm % 10)};
  }
  if (dims.sequences >= 65535 || dims.heads > 65535 || dims.tokens > INT32_MAX) {
    return {false, fmt::format("a grid holds at most 65534 sequences, 65535 heads and 2^31 - 1 rows, not {}, "
                               "{} and {}",
                               dims.sequences, dims.heads, dims.tokens)};
  }
  return attention_fits(dims);
}

Support attention_cuda_mma_fits(const Problem& problem, const AttentionDims& dims) {
  if (problem.target.sm < 80) {
    return {false, fmt::format("compute capability {}.{} has no mma.sync of 16 x 8 x 16{}; 8.0 has",
                               problem.target.sm / 10, problem.target.sm % 10,
                               problem.dtype == DType::kBF16 ? " and no bf16" : "")};
  }
  if (dims.head_dim % 8 != 0 || dims.head_dim > kAttentionCudaHeadDim) {
    return {false, fmt::format("a head size of {} is not a multiple of 8 up to {}", dims.head_dim,
                               kAttentionCudaHeadDim)};
  }
  return attention_cuda_tiled_fits(problem, dims);
}

namespace {

// Checks the requirements of both families of kernels that use warpgroups. If heads are at most 32 wide, half of a
// warpgroup's tile is zeros and mma.sync is faster (attention_cuda.cc).
Support warpgroups_fit(const Problem& problem, const AttentionDims& dims, int64_t widest) {
  const int64_t head_dim = dims.head_dim;
  if (problem.target.sm != 90) {
    return {false, fmt::format("needs the wgmma of compute capability 9.0; this card has {}.{}",
                               problem.target.sm / 10, problem.target.sm % 10)};
  }
  if (head_dim <= 32 || head_dim > widest) {
    return {false,
            fmt::format("takes head sizes from 33 to {} in tiles of 64 columns, not {}", widest, head_dim)};
  }
  return {};
}

}  // namespace

Support attention_cuda_wgmma_fits(const Problem& problem, const AttentionDims& dims) {
  if (Support support = warpgroups_fit(problem, dims, kAttentionCudaHeadDim); !support.ok) {
    return support;
  }
  if (attention_is_of_short_sequences(dims)) {
    return {false, "sequences of 64 rows or less, on average, waste less of the small blocks of mma.sync"};
  }
  return attention_cuda_mma_fits(problem, dims);
}

Support first_token_attention_cuda_fits(const Problem& problem, const FirstTokenAttentionProblem& attention) {
  if (problem.target.sm != 90) {
    return {false, fmt::format("needs the shared memory of compute capability 9.0; this card has {}.{}",
                               problem.target.sm / 10, problem.target.sm % 10)};
  }
  if (attention.w != problem.dtype) return {false, "takes rows and weights in one type"};
  if (!first_token_attention_sizes_fit(attention.dims, attention.columns)) {
    return {false, fmt::format("takes 384, 512, 768 or 1024 columns and up to 16 heads of 32, 64, 96 or 128, "
                               "not {} and {} of {}",
                               attention.columns, attention.dims.heads, attention.dims.head_dim)};
  }
  return {};
}
int64_t first_token_attention_cuda_scratch(const FirstTokenAttentionProblem& attention) {
  return first_token_attention_cuda_scratch_bytes(attention.dims, attention.columns);
}

Support attention_cuda_tf32_fits(const Problem& problem, const AttentionDims& dims) {
  if (problem.target.fp32_products != Fp32Products::kTf32)
    return {false, "products of fp32 operands are not to be rounded to tf32"};
  if (problem.target.sm < 80) {
    return {false, fmt::format("compute capability {}.{} has no tf32; 8.0 has", problem.target.sm / 10,
                               problem.target.sm % 10)};
  }
  if (dims.head_dim % 4 != 0) {
    return {false, fmt::format("a head size of {} is not a multiple of 4", dims.head_dim)};
  }
  return attention_cuda_tiled_fits(problem, dims);
}

Support attention_cuda_tf32_wgmma_fits(const Problem& problem, const AttentionDims& dims) {
  if (Support support = attention_cuda_tf32_fits(problem, dims); !support.ok) return support;
  if (dims.group_heads() != 1) {
    return {false, fmt::format("needs a head of keys and values for each of the {} heads; there are {}",
                               dims.heads, dims.num_kv_heads())};
  }
  if (dims.window != 0)
    return {false, fmt::format("computes no window, such as one of {} rows", dims.window)};
  return warpgroups_fit(problem, dims, 64);
}

Support paged_attention_fits(const PagedAttentionDims& dims) {
  if (dims.kv_heads > 0 && dims.heads % dims.kv_heads == 0) return {};
  return {false,
          fmt::format("{} query heads cannot share {} heads of keys and values", dims.heads, dims.kv_heads)};
}
Support paged_attention_cuda_fits(const Problem& problem, const PagedAttentionDims& dims) {
  if (dims.head_dim > kPagedCudaHeadDim) {
    return {false, fmt::format("a head size of {} is more than {}", dims.head_dim, kPagedCudaHeadDim)};
  }
  if (dims.tokens > 65535 || dims.heads > 65535) {
    return {false,
            fmt::format("a grid holds at most 65535 rows and heads, not {} and {}", dims.tokens, dims.heads)};
  }
  if (problem.dtype == DType::kBF16 && problem.target.sm < 80) {
    return {false, fmt::format("compute capability {}.{} has no bf16; 8.0 has", problem.target.sm / 10,
                               problem.target.sm % 10)};
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
