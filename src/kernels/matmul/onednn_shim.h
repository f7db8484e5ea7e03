// What differs between the two generations of oneDNN that Plimsoll builds with (2.6 and 3.x): how a primitive
// is described. Nothing else in the tree knows which one it is. Thread-safe: pure functions but for
// with_library_threads.
#pragma once

#include <dnnl.hpp>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace plimsoll::onednn {

// A description of dst = src weights (+ bias). A default-constructed bias is none.
// Errors: throws dnnl::error with dnnl_unimplemented if the library has no such product.
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

// Calls `body` while the library believes that there are `n` threads. Requires: not called from a parallel
// region.
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
