#include "kernels/attention/attention_catalog.h"

#include <fmt/format.h>

#include "kernels/catalog/catalog.h"

namespace plimsoll::catalog_rows {
namespace {

AttentionDims dims_of(const Problem& problem) {
  return {problem.dim("T"), problem.dim("B"), problem.dim("S"), problem.dim("H"), problem.dim("D")};
}

}  // namespace

Support attention_fits(const Problem& problem) {
  if (problem.dim("S") <= kAttentionLongest) return {};
  return {false, fmt::format("a sequence of {} rows is longer than the {} that dropout can number",
                             problem.dim("S"), kAttentionLongest)};
}

Support attention_cuda_tiled_fits(const Problem& problem);
Support attention_cuda_mma_fits(const Problem& problem) {
  if (problem.sm < 80) {
    return {false,
            fmt::format("compute capability {}.{} has no mma.sync of 16 x 8 x 16{}; 8.0 has", problem.sm / 10,
                        problem.sm % 10, problem.dtype == DType::kBF16 ? " and no bf16" : "")};
  }
  if (problem.dim("D") % 8 != 0 || problem.dim("D") > kAttentionCudaHeadDim) {
    return {false, fmt::format("a head size of {} is no multiple of 8 up to {}", problem.dim("D"),
                               kAttentionCudaHeadDim)};
  }
  return attention_cuda_tiled_fits(problem);
}
Support attention_cuda_tiled_fits(const Problem& problem) {
  if (problem.dim("D") > kAttentionCudaHeadDim) {
    return {false, fmt::format("a head size of {} is more than {}", problem.dim("D"), kAttentionCudaHeadDim)};
  }
  if (problem.sm < 80 && problem.dim("D") > 64) {
    return {false, fmt::format("tiles of a head size of {} do not fit the 64 KiB of shared memory of compute "
                               "capability {}.{}",
                               problem.dim("D"), problem.sm / 10, problem.sm % 10)};
  }
  if (problem.dim("B") >= 65535 || problem.dim("H") > 65535 || problem.dim("T") > INT32_MAX) {
    return {false, fmt::format("a grid holds at most 65534 sequences, 65535 heads and 2^31 - 1 rows, not {}, "
                               "{} and {}",
                               problem.dim("B"), problem.dim("H"), problem.dim("T"))};
  }
  return attention_fits(problem);
}

namespace {

// What both families by warpgroups ask for. Half of a warpgroup's tile is zeros where heads are no wider than
// 32: mma.sync is the faster one then (attention_cuda.cc).
Support warpgroups_fit(const Problem& problem) {
  const int64_t head_dim = problem.dim("D");
  if (problem.sm != 90) {
    return {false, fmt::format("needs the wgmma of compute capability 9.0; this card has {}.{}",
                               problem.sm / 10, problem.sm % 10)};
  }
  if (head_dim <= 32 || head_dim > 64) {
    return {false, fmt::format("a head size of {} does not fill tiles of 64 columns: 33 to 64 do", head_dim)};
  }
  return {};
}

}  // namespace

Support attention_cuda_wgmma_fits(const Problem& problem) {
  if (const Support support = warpgroups_fit(problem); !support.ok) return support;
  if (attention_is_of_short_sequences(dims_of(problem))) {
    return {false, "sequences of 64 rows or less, on average, waste less of the small blocks of mma.sync"};
  }
  return attention_cuda_mma_fits(problem);
}

Support first_token_attention_cuda_fits(const Problem& problem) {
  if (problem.sm != 90) {
    return {false, fmt::format("needs the shared memory of compute capability 9.0; this card has {}.{}",
                               problem.sm / 10, problem.sm % 10)};
  }
  if (problem.dim("w") != static_cast<int64_t>(problem.dtype))
    return {false, "takes rows and weights in one type"};
  if (!first_token_attention_sizes_fit(dims_of(problem), problem.dim("C"))) {
    return {false, fmt::format("takes 384, 512, 768 or 1024 columns and up to 16 heads of 32, 64, 96 or 128, "
                               "not {} and {} of {}",
                               problem.dim("C"), problem.dim("H"), problem.dim("D"))};
  }
  return {};
}
int64_t first_token_attention_cuda_scratch(const Problem& problem) {
  return first_token_attention_cuda_scratch_bytes(dims_of(problem), problem.dim("C"));
}

Support attention_cuda_tf32_fits(const Problem& problem) {
  if (problem.dim_or("tf32", 0) == 0)
    return {false, "products of fp32 operands are not to be rounded to tf32"};
  if (problem.sm < 80) {
    return {false,
            fmt::format("compute capability {}.{} has no tf32; 8.0 has", problem.sm / 10, problem.sm % 10)};
  }
  if (problem.dim("D") % 4 != 0) {
    return {false, fmt::format("a head size of {} is no multiple of 4", problem.dim("D"))};
  }
  return attention_cuda_tiled_fits(problem);
}

Support attention_cuda_tf32_wgmma_fits(const Problem& problem) {
  const Support support = attention_cuda_tf32_fits(problem);
  return support.ok ? warpgroups_fit(problem) : support;
}

int64_t attention_bwd_cuda_mma_scratch(const Problem& problem) {
  return attention_bwd_cuda_mma_scratch_bytes(dims_of(problem));
}
int64_t attention_bwd_cuda_tiled_scratch(const Problem& problem) {
  return attention_bwd_cuda_tiled_scratch_bytes(dims_of(problem));
}
int64_t attention_fwd_cpu_scratch(const Problem& problem) {
  return attention_fwd_cpu_scratch_bytes(dims_of(problem), problem.num_threads);
}
int64_t attention_bwd_cpu_scratch(const Problem& problem) {
  return attention_bwd_cpu_scratch_bytes(dims_of(problem), problem.num_threads);
}
int64_t attention_fwd_ref_scratch(const Problem& problem) {
  return attention_fwd_ref_scratch_bytes(dims_of(problem));
}
int64_t attention_bwd_ref_scratch(const Problem& problem) {
  return attention_bwd_ref_scratch_bytes(dims_of(problem));
}

}  // namespace plimsoll::catalog_rows
