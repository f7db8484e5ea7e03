#include "run/caches.h"

#include <gtest/gtest.h>

#include "base/file_fault.h"

namespace plimsoll {
namespace {

TEST(CalibrationCache, IsReadWhereItIsOfThisCpuAndTheseThreads) {
  MemoryFileSystem files;
  const Environment environment{{"XDG_CACHE_HOME", "/cache"}};
  std::vector<std::string> warnings;
  EXPECT_TRUE(read_calibration("auto", 2, environment, files, warnings).empty());
  EXPECT_TRUE(warnings.empty());
  const CpuCalibration calibration{
      .cpu = calibrated_cpu(), .num_threads = 2, .factors = {{DType::kF32, {{"matmul", 0.5}}}}};
  const std::string path = calibration_path(calibrated_cpu(), 2, environment);
  EXPECT_TRUE(path.starts_with("/cache/plimsoll/calibration/")) << path;
  make_folders(files, "/cache/plimsoll/calibration");
  replace_file(files, path, cpu_calibration_json(calibration));
  EXPECT_EQ(read_calibration("auto", 2, environment, files, warnings), calibration);
  EXPECT_TRUE(read_calibration("auto", 3, environment, files, warnings).empty());
  EXPECT_TRUE(read_calibration("off", 2, environment, files, warnings).empty());
  EXPECT_TRUE(read_calibration("auto", 2, {}, files, warnings).empty());
  EXPECT_TRUE(warnings.empty());
  EXPECT_TRUE(read_calibration(path, 3, environment, files, warnings).empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("with 2 threads"), std::string::npos) << warnings[0];
}

TEST(CalibrationCache, RefusesWhatIsNamedAndWarnsOfItsOwn) {
  MemoryFileSystem files;
  const Environment environment{{"XDG_CACHE_HOME", "/cache"}};
  std::vector<std::string> warnings;
  const std::string path = calibration_path(calibrated_cpu(), 2, environment);
  EXPECT_THROW(read_calibration(path, 2, environment, files, warnings), Error);
  make_folders(files, "/cache/plimsoll/calibration");
  replace_file(files, path, "{\"a\": 1}");
  EXPECT_THROW(read_calibration(path, 2, environment, files, warnings), Error);
  EXPECT_TRUE(warnings.empty());
  EXPECT_TRUE(read_calibration("auto", 2, environment, files, warnings).empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("without calibration"), std::string::npos) << warnings[0];
}

// The user did not ask for the cache, so a folder that cannot be read must be treated as empty. Here the folder cannot be read because it
// is a symbolic link to itself.
TEST(CalibrationCache, ThatCannotBeLookedForIsNone) {
  MemoryFileSystem files;
  files.make_link("/loop", "/loop");
  const Environment environment{{"XDG_CACHE_HOME", "/loop"}};
  const std::string path = calibration_path(calibrated_cpu(), 2, environment);
  EXPECT_THROW(files.status(path), Error);
  std::vector<std::string> warnings;
  EXPECT_TRUE(read_calibration("auto", 2, environment, files, warnings).empty());
  EXPECT_TRUE(warnings.empty());
  EXPECT_THROW(read_calibration(path, 2, environment, files, warnings), Error);
}

}  // namespace
}  // namespace plimsoll
