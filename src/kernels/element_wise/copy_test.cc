#include "kernels/element_wise/cast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

TEST(Copy, MovesExactlyTheBytes) {
  const auto check = [](const auto& run) {
    for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{4096}, int64_t{100001}}) {
      std::vector<std::byte> from(static_cast<size_t>(bytes) + 1),
          to(static_cast<size_t>(bytes) + 2, std::byte{0xAB});
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 % 251);
      run({.from = from.data(), .to = to.data() + 1, .bytes = bytes});
      EXPECT_EQ(to.front(), std::byte{0xAB});
      EXPECT_EQ(to.back(), std::byte{0xAB});
      EXPECT_TRUE(std::equal(to.begin() + 1, to.end() - 1, from.begin())) << bytes;
    }
  };
  check(copy_ref);
  FastRows(copy_ref).for_each(DType::kF32, check);
}

}  // namespace
}  // namespace plimsoll::test
