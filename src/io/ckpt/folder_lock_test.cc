#include "io/ckpt/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "base/file.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

TEST(FolderLock, IsHeldByOneAndNamesTheHolder) {
  const test::ScratchFolder scratch;
  const std::string& folder = scratch.path();
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
}

}  // namespace
}  // namespace plimsoll
