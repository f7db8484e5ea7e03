// Checks that the metadata of the wheel agrees with the files that it describes: version, name, extras, and the folder of the program;
// and that THIRD_PARTY.md lists the libraries that CMake finds and those that the program opens.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "base/opened_library.h"

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
  // In a wheel the program must be installed two folders below site-packages, because its library paths begin
  // with "$ORIGIN/../../".
  EXPECT_NE(read_source("cmake/PlimsollInstall.cmake").find("DESTINATION plimsoll_train/bin COMPONENT wheel"),
            std::string::npos);
  EXPECT_TRUE(plimsoll::cublaslt_names().at(1).starts_with("$ORIGIN/../../nvidia/"));
  EXPECT_TRUE(plimsoll::nccl_names().at(1).starts_with("$ORIGIN/../../nvidia/"));
}

TEST(WheelMetadata, TheCitationHasTheVersionOfCMake) {
  EXPECT_EQ(first_match(read_source("CITATION.cff"), R"(\nversion: ([0-9.]+))"),
            first_match(read_source("CMakeLists.txt"), R"(project\(plimsoll VERSION ([0-9.]+))"));
}

TEST(ThirdParty, EveryLibraryThatCMakeFindsIsListed) {
  const std::string page = read_source("THIRD_PARTY.md");
  const std::string found =
      read_source("cmake/PlimsollDependencies.cmake") + read_source("cmake/PlimsollCuda.cmake");
  // THIRD_PARTY.md need not list these: Threads belongs to the C library, PkgConfig is a build tool, and GTest
  // and benchmark are used by tests and benchmarks only.
  const std::set<std::string> not_linked{"Threads", "PkgConfig", "GTest", "benchmark"};
  const std::regex call(
      R"re((?:find_package\(|find_library\(\w+ |pkg_check_modules\(\w+ (?:REQUIRED )?(?:IMPORTED_TARGET )?)([A-Za-z_-]+))re");
  int num_libraries = 0;
  for (std::sregex_iterator at(found.begin(), found.end(), call), end; at != end; ++at) {
    const std::string name = (*at)[1];
    if (not_linked.contains(name)) continue;
    ++num_libraries;
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name << " has no row in THIRD_PARTY.md";
  }
  EXPECT_GE(num_libraries, 16);
}

TEST(ThirdParty, EveryLibraryThatTheProgramOpensIsListed) {
  const std::string page = read_source("THIRD_PARTY.md");
  for (const std::string& name :
       {plimsoll::cublaslt_names().at(0), plimsoll::nccl_names().at(0), std::string("libcairo.so.2"),
        std::string("libcurl.so.4"), std::string("libcrypto.so.3"), std::string("libcuda.so.1")}) {
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name << " is not in THIRD_PARTY.md";
  }
}

}  // namespace
