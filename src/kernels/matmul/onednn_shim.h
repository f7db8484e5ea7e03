// Hides how the functions that describe an operation differ between the two major versions of oneDNN that Plimsoll supports (2.6 and 3.x).
// No other code that calls oneDNN depends on its version. Thread-safe: pure functions, except with_library_threads.
#pragma once

#include <dnnl.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace plimsoll::onednn {

// Describes the matrix product dst = src weights (+ bias) to oneDNN. A null bias means none. Errors: throws dnnl::error with
// dnnl_unimplemented if oneDNN does not support the product.
inline dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const dnnl::memory::desc& src,
                                                    const dnnl::memory::desc& weights,
                                                    const dnnl::memory::desc* bias,
                                                    const dnnl::memory::desc& dst,
                                                    const dnnl::primitive_attr& attr) {
#if DNNL_VERSION_MAJOR >= 3
  if (bias != nullptr) return {engine, src, weights, *bias, dst, attr};
  return {engine, src, weights, dst, attr};
#else
  if (bias != nullptr) return {dnnl::matmul::desc(src, weights, *bias, dst), attr, engine};
  return {dnnl::matmul::desc(src, weights, dst), attr, engine};
#endif
}

// The blocks of which a blocked memory layout consists, from the outermost to the innermost: their sizes and the matrix dimension (0 or 1)
// that each block divides. `strides` are the distances, in elements, between adjacent outermost blocks along each dimension.
struct Blocks {
  int count = 0;
  std::array<int64_t, 3> sizes = {};
  std::array<int64_t, 3> dimensions = {};
  std::array<int64_t, 2> strides = {};
};
// Returns the inner blocks of the layout of a matrix. Returns nothing if the layout is not blocked or has more than three inner blocks.
inline std::optional<Blocks> blocks_of(const dnnl::memory::desc& desc) {
  Blocks blocks;
#if DNNL_VERSION_MAJOR >= 3
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked) return std::nullopt;
  blocks.count = desc.get_inner_nblks();
  if (blocks.count > 3) return std::nullopt;
  std::copy_n(desc.get_inner_blks().begin(), blocks.count, blocks.sizes.begin());
  std::copy_n(desc.get_inner_idxs().begin(), blocks.count, blocks.dimensions.begin());
  std::copy_n(desc.get_strides().begin(), 2, blocks.strides.begin());
#else
  if (desc.data.format_kind != dnnl_blocked) return std::nullopt;
  const dnnl_blocking_desc_t& blocking = desc.data.format_desc.blocking;
  blocks.count = blocking.inner_nblks;
  if (blocks.count > 3) return std::nullopt;
  std::copy_n(blocking.inner_blks, blocks.count, blocks.sizes.begin());
  std::copy_n(blocking.inner_idxs, blocks.count, blocks.dimensions.begin());
  std::copy_n(blocking.strides, 2, blocks.strides.begin());
#endif
  return blocks;
}

// Calls `body` while oneDNN's number of threads is `n`. Requires: not called from a parallel region.
template <typename Body>
auto with_library_threads([[maybe_unused]] int n, Body&& body) {
#ifdef _OPENMP
  struct Restore {
    int threads = omp_get_max_threads();
    ~Restore() { omp_set_num_threads(threads); }
  } restore;
  omp_set_num_threads(n);
#endif
  return body();
}

}  // namespace plimsoll::onednn
