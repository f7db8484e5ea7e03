#include "run/caches.h"

#include <gtest/gtest.h>

#include <string>

#include "base/file_fault.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

TEST(UserCache, KeepsATextInAFolderThatItMakes) {
  MemoryFileSystem files;
  const std::string path = cache_folder("constants", {{"HOME", "/home/a"}}) + "/x.json";
  EXPECT_EQ(path, "/home/a/.cache/plimsoll/constants/x.json");
  EXPECT_FALSE(is_in_cache(files, path));
  keep_in_cache(files, path, "{}", "it");
  EXPECT_TRUE(is_in_cache(files, path));
  EXPECT_EQ(read_text_file(files, path, 100), "{}");
}

TEST(UserCache, WithoutOneThereIsNoPlace) {
  MemoryFileSystem files;
  EXPECT_EQ(cache_folder("constants", {}), "");
  try {
    keep_in_cache(files, "", "{}", "what was measured");
    FAIL() << "it was kept";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_EQ(std::string(error.what()),
              "the environment has neither HOME nor XDG_CACHE_HOME, so Plimsoll knows no folder in which to "
              "save what was measured; set HOME");
  }
}

}  // namespace
}  // namespace plimsoll
