#include "kernels/attention/catalog.h"

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
