#include "base/opened_library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace plimsoll {
namespace {

TEST(OpenedLibrary, TheFileIsNamed) {
  const std::vector<std::string> names{"libplimsoll_no_such_library.so.9", "libm.so.6", "libc.so.6"};
  const LibrarySearch search = search_library(names);
  EXPECT_TRUE(std::filesystem::path(search.file).is_absolute()) << search.file;
  EXPECT_EQ(std::filesystem::path(search.file).filename(), "libm.so.6");
  ASSERT_EQ(search.tried.size(), 1u);
  EXPECT_EQ(search.tried[0].name, names[0]);
  EXPECT_NE(search.tried[0].error.find(names[0]), std::string::npos) << search.tried[0].error;
}

TEST(OpenedLibrary, EveryNameOfAMissingLibraryIsNamed) {
  const std::vector<std::string> names{"libplimsoll_no_such_library.so.9", "/nowhere/libplimsoll.so"};
  const LibrarySearch search = search_library(names);
  EXPECT_EQ(search.file, "");
  ASSERT_EQ(search.tried.size(), 2u);
  EXPECT_EQ(search.tried[1].name, names[1]);
}

TEST(OpenedLibrary, TheFoldersOfTheSystemAreListed) {
  const std::vector<std::string> folders = loader_folders();
  ASSERT_FALSE(folders.empty());
  for (const std::string& folder : folders) EXPECT_TRUE(folder.starts_with('/')) << folder;
  EXPECT_TRUE(std::ranges::any_of(folders, [](const std::string& folder) {
    return folder == "/lib" || folder == "/usr/lib" || folder == "/usr/lib64";
  }));
}

using Names = std::vector<std::string>;

TEST(OpenedLibrary, CublasLtIsSearchedInTheSystemThenInTheWheelThenInTheToolkit) {
  EXPECT_EQ(cublaslt_names(), (Names{"libcublasLt.so.13", "$ORIGIN/../../nvidia/cu13/lib/libcublasLt.so.13",
                                     "/usr/local/cuda/lib64/libcublasLt.so.13", "libcublasLt.so"}));
}

TEST(OpenedLibrary, NcclIsSearchedInTheSystemThenInTheWheelThenInTheToolkit) {
  EXPECT_EQ(nccl_names(), (Names{"libnccl.so.2", "$ORIGIN/../../nvidia/nccl/lib/libnccl.so.2",
                                 "/usr/local/cuda/lib64/libnccl.so.2"}));
}

}  // namespace
}  // namespace plimsoll
