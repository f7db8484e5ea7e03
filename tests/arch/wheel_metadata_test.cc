// Checks that the metadata of the wheel agrees with the files that it describes: version, name, extras, and the folder of the program.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "base/nvidia_libraries.h"

namespace {

std::string read_source(const std::string& path) {
  std::ifstream stream(std::string(PLIMSOLL_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(stream) << path << " cannot be read";
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string first_match(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "";
}

TEST(WheelMetadata, TheVersionIsThatOfCMake) {
  const std::string version =
      first_match(read_source("CMakeLists.txt"), R"(project\(plimsoll VERSION ([0-9.]+))");
  ASSERT_NE(version, "");
  EXPECT_EQ(first_match(read_source("python/plimsoll_train/_program.py"), R"re(__version__ = "([^"]*)")re"),
            version);
  const std::string project = read_source("pyproject.toml");
  EXPECT_NE(project.find(R"(dynamic = ["version"])"), std::string::npos);
  EXPECT_NE(project.find(R"(input = "CMakeLists.txt")"), std::string::npos);
}

TEST(WheelMetadata, TheNamesAreThoseOfTheProgramAndThePackage) {
  const std::string project = read_source("pyproject.toml");
  EXPECT_EQ(first_match(project, R"re(\nname = "([^"]*)")re"), "plimsoll-train");
  EXPECT_EQ(first_match(project, R"re(\nplimsoll = "([^"]*)")re"), "plimsoll_train.__main__:main");
}

TEST(WheelMetadata, TheExtraInstallsTheLibrariesThatTheProgramSearches) {
  const std::string cuda = first_match(read_source("pyproject.toml"), R"(\ncuda = \[([^\]]*)\])");
  EXPECT_NE(cuda.find("nvidia-cublas"), std::string::npos) << cuda;
  EXPECT_NE(cuda.find("nvidia-nccl-cu13"), std::string::npos) << cuda;
  // The program is two folders below site-packages, as "$ORIGIN/../../" in the names of the libraries assumes.
  EXPECT_NE(read_source("cmake/PlimsollInstall.cmake").find("DESTINATION plimsoll_train/bin COMPONENT wheel"),
            std::string::npos);
  EXPECT_TRUE(plimsoll::cublaslt_names().at(1).starts_with("$ORIGIN/../../nvidia/"));
  EXPECT_TRUE(plimsoll::nccl_names().at(1).starts_with("$ORIGIN/../../nvidia/"));
}

}  // namespace
