#include "run/caches.h"

#include <gtest/gtest.h>

#include "base/file_fault.h"

namespace plimsoll {
namespace {

TEST(GpuConstantCache, IsTakenForItsCardDriverAndBuildAlone) {
  MemoryFileSystem files;
  const Environment environment{{"XDG_CACHE_HOME", "/cache"}};
  const MeasuredGpuConstant constant{
      .card = "NVIDIA X", .driver = "580.1", .build = "b", .date = "2026-11-23", .bytes = 123456789};
  const std::string path = gpu_constant_path("NVIDIA X", "580.1", "b", environment);
  EXPECT_TRUE(path.starts_with("/cache/plimsoll/constants/")) << path;
  make_folders(files, "/cache/plimsoll/constants");
  replace_file(files, path, gpu_constant_json(constant));
  std::vector<std::string> warnings;
  const auto taken = [&](const char* card, const char* driver, const char* build, const Environment& from) {
    GpuTarget gpu{.constant_bytes = 1, .constant_provenance = "the table's"};
    take_gpu_constant(card, driver, build, from, files, gpu, warnings);
    EXPECT_EQ(gpu.constant_bytes == 1, gpu.constant_provenance == "the table's");
    return gpu.constant_bytes;
  };
  EXPECT_EQ(taken("NVIDIA X", "580.1", "b", environment), 123456789);
  EXPECT_EQ(taken("NVIDIA Y", "580.1", "b", environment), 1);
  EXPECT_EQ(taken("NVIDIA X", "580.2", "b", environment), 1);
  EXPECT_EQ(taken("NVIDIA X", "580.1", "c", environment), 1);
  EXPECT_EQ(taken("NVIDIA X", "580.1", "b", {}), 1);
  EXPECT_TRUE(warnings.empty());
  replace_file(files, path, "{");
  EXPECT_EQ(taken("NVIDIA X", "580.1", "b", environment), 1);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("from the built-in table"), std::string::npos) << warnings[0];
}

TEST(GpuConstantCache, ABuildHasAName) {
  EXPECT_FALSE(program_build().empty());
  EXPECT_EQ(program_build(), program_build());
}

}  // namespace
}  // namespace plimsoll
