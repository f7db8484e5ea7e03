#include "base/nvidia_libraries.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using Names = std::vector<std::string>;

TEST(NvidiaLibrariesTest, CublasLtIsSearchedInTheSystemThenInTheWheelThenInTheToolkit) {
  EXPECT_EQ(cublaslt_names(), (Names{"libcublasLt.so.13", "$ORIGIN/../../nvidia/cu13/lib/libcublasLt.so.13",
                                     "/usr/local/cuda/lib64/libcublasLt.so.13", "libcublasLt.so"}));
}

TEST(NvidiaLibrariesTest, NcclIsSearchedInTheSystemThenInTheWheelThenInTheToolkit) {
  EXPECT_EQ(nccl_names(), (Names{"libnccl.so.2", "$ORIGIN/../../nvidia/nccl/lib/libnccl.so.2",
                                 "/usr/local/cuda/lib64/libnccl.so.2"}));
}

}  // namespace
}  // namespace plimsoll
