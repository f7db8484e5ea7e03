#include "kernels/element_wise/cast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace plimsoll {
namespace {

TEST(Copy, MovesExactlyTheBytes) {
  for (const auto run : {copy_ref, copy_cpu}) {
    for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{4096}, int64_t{100001}}) {
      std::vector<std::byte> from(static_cast<size_t>(bytes) + 1),
          to(static_cast<size_t>(bytes) + 2, std::byte{0xAB});
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 % 251);
      run({.from = from.data(), .to = to.data() + 1, .bytes = bytes});
      EXPECT_EQ(to.front(), std::byte{0xAB});
      EXPECT_EQ(to.back(), std::byte{0xAB});
      EXPECT_TRUE(std::equal(to.begin() + 1, to.end() - 1, from.begin())) << bytes;
    }
  }
}

}  // namespace
}  // namespace plimsoll
