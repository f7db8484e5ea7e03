#include "io/ckpt/folder_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "base/file.h"

namespace plimsoll {
namespace {

TEST(FolderLock, IsHeldByOneAndNamesTheHolder) {
  std::string pattern = testing::TempDir() + "plimsoll_folder_lock_test_XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  std::optional<FolderLock> first(std::in_place, folder);
  try {
    const FolderLock second(folder);
    FAIL() << "two hold one folder";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    const std::string text = error.what();
    EXPECT_NE(text.find(folder + "/.plimsoll.lock"), std::string::npos) << text;
    EXPECT_NE(text.find("process " + std::to_string(getpid())), std::string::npos) << text;
  }
  first.reset();
  EXPECT_NO_THROW(FolderLock again(folder));
  try {
    const FolderLock nowhere(folder + "/missing");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("missing/.plimsoll.lock"), std::string::npos) << error.what();
  }
  remove_tree(posix_file_system(), folder);
}

}  // namespace
}  // namespace plimsoll
