#include "run/states_folder.h"

#include <gtest/gtest.h>

#include "base/file_fault.h"

namespace plimsoll {
namespace {

std::string refusal_of(MemoryFileSystem& files, const std::string& folder, int64_t ranks, ErrorCode code) {
  Arguments arguments;
  arguments.offload_optimizer = "nvme:" + folder;
  Plan plan;
  plan.disk_bytes = 3 * kBlockBytes;
  try {
    require_states_folder(plan, arguments, files, 0, ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

TEST(StatesFolder, HasToExistAndToHaveRoomForAllRanksOfTheMachine) {
  MemoryFileSystem files;
  files.make_folder("nvme");
  files.create("nvme/file");
  EXPECT_EQ(refusal_of(files, "no", 1, ErrorCode::kUsage),
            "--offload_optimizer nvme:no: 'no' does not exist; create it, or name another folder");
  EXPECT_EQ(
      refusal_of(files, "nvme/file", 1, ErrorCode::kUsage),
      "--offload_optimizer nvme:nvme/file: 'nvme/file' is not a folder; create it, or name another folder");
  files.set_space({.free_bytes = int64_t{1} << 30, .is_writable = false});
  EXPECT_NE(refusal_of(files, "nvme", 1, ErrorCode::kUsage).find("may not write to 'nvme'"),
            std::string::npos);
  files.set_space({.free_bytes = 6 * kBlockBytes, .is_writable = true});
  EXPECT_EQ(refusal_of(files, "nvme", 2, ErrorCode::kUsage), "");
  EXPECT_EQ(
      refusal_of(files, "nvme", 3, ErrorCode::kWillNotFit),
      "--offload_optimizer nvme:nvme: the optimizer states of 3 ranks need 36864 bytes (0 MiB) on the disk "
      "of "
      "'nvme', where 24576 bytes (0 MiB) are available; free space there, or name a folder on another disk");
}

// The run replaces a file that a killed run left, so its bytes must count as available.
TEST(StatesFolder, OldFilesOfTheRunCountAsFree) {
  MemoryFileSystem files;
  files.make_folder("nvme");
  files.set_space({.free_bytes = 1, .is_writable = true});
  EXPECT_NE(refusal_of(files, "nvme", 1, ErrorCode::kWillNotFit), "");
  const std::vector<std::byte> old(static_cast<size_t>(3 * kBlockBytes));
  files.create("nvme/plimsoll-optimizer-states-rank0")->write(old);
  EXPECT_EQ(refusal_of(files, "nvme", 1, ErrorCode::kUsage), "");
}

TEST(StatesFolder, EachRankHasItsFile) {
  Arguments arguments;
  arguments.offload_optimizer = "nvme:/a folder/";
  EXPECT_EQ(states_file(arguments, 3), "/a folder/plimsoll-optimizer-states-rank3");
}

}  // namespace
}  // namespace plimsoll
