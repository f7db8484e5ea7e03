#include "cli/bench_words.h"

#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

using Words = std::vector<std::string>;

TEST(BenchWords, ArgumentsOfTheDeviceHaveTheirValues) {
  EXPECT_EQ(device_arguments({"--bf16", "--use_cpu", "False", "--max_steps", "3"}),
            (Words{"--use_cpu", "False"}));
  EXPECT_EQ(device_arguments({"--use-cpu", "--bf16", "True"}), Words{"--use-cpu"});
  EXPECT_EQ(device_arguments({"--no_use_cpu", "--device", "cuda:1"}),
            (Words{"--no_use_cpu", "--device", "cuda:1"}));
  EXPECT_EQ(device_arguments({"--use_cpu=0", "--device=cpu"}), (Words{"--use_cpu=0", "--device=cpu"}));
  EXPECT_EQ(device_arguments({"--bf16", "--device"}), Words{"--device"});
  EXPECT_EQ(device_arguments({"--device_of_another_option", "x"}), Words{});
}

}  // namespace
}  // namespace plimsoll::cli
