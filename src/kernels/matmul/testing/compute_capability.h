// Returns the compute capability of the first GPU, for tests that run only on some GPUs.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace plimsoll::test {

// Returns the compute capability as one number, for example 90 for 9.0.
inline int compute_capability() {
  int major = 0, minor = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), cudaSuccess);
  return 10 * major + minor;
}

}  // namespace plimsoll::test
