// The example with a loop of its own runs, learns and holds what it planned.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "tests/training/tiny_folder.h"

namespace plimsoll {
namespace {

TEST(OwnLoop, RunsAndLearns) {
  const testing::TestFolder folder("own_loop");
  const std::string model = testing::write_tiny_model(folder, 0.0);
  const std::string command = std::string(PLIMSOLL_BINARY_DIR) + "/examples/own_loop " + model + " dummy " +
                              folder.path("out") + " 40 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) output += buffer;
  ASSERT_EQ(pclose(pipe), 0) << output;
  double first = 0;
  double last = 0;
  ASSERT_EQ(std::sscanf(output.c_str() + output.find("step 1 "), "step 1  loss %lf", &first), 1) << output;
  ASSERT_EQ(std::sscanf(output.c_str() + output.find("step 40 "), "step 40  loss %lf", &last), 1) << output;
  EXPECT_GT(first, 0.0);
  EXPECT_LT(last, 2.0 * first);
  EXPECT_TRUE(std::filesystem::exists(folder.path("out") + "/model.safetensors"));
}

}  // namespace
}  // namespace plimsoll
