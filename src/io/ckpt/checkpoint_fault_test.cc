// Tests the invariants of checkpoint.h on a simulated disk. Each system call is made to fail in turn, by an error, a full disk or a power
// failure, during a save, a second save of the same step, a rotation and a clean-up.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "base/file_fault.h"
#include "io/ckpt/checkpoint.h"
#include "io/ckpt/testing/checkpoint_fixture.h"

namespace plimsoll {
namespace {

using Action = std::function<void(FileSystem&)>;

// Does what a training run does in a step in which it saves: writes the checkpoint, makes the link "last" refer to it, and removes old
// checkpoints.
void save_link_and_rotate(FileSystem& files, int64_t step) {
  const std::string path = CheckpointFixture(step).save(files);
  point_link(files, "/out", "last", path);
  rotate_checkpoints(files, "/out", 1, path, "/out/checkpoint-2");
}

// Returns a simulated disk with the checkpoints of step 2, to which the link "best" refers, and of step 4, to which "last" refers.
std::unique_ptr<MemoryFileSystem> disk_with_two_checkpoints() {
  auto disk = std::make_unique<MemoryFileSystem>();
  CheckpointFixture(2).save(*disk);
  point_link(*disk, "/out", "best", "/out/checkpoint-2");
  CheckpointFixture(4).save(*disk);
  point_link(*disk, "/out", "last", "/out/checkpoint-4");
  return disk;
}

// Checks that the newest valid checkpoint is of one of `steps` and has the content that was saved, that every folder named checkpoint-N is
// complete, that links refer to complete checkpoints (unless `links_may_dangle`), and that a run that starts with this disk can remove
// leftovers and save a checkpoint.
void expect_sound(MemoryFileSystem& disk, const std::vector<int64_t>& steps, bool links_may_dangle) {
  const NewestCheckpoint newest = find_newest_verified(disk, "/out");
  ASSERT_NE(newest.path, "");
  EXPECT_TRUE(newest.skipped.empty()) << newest.skipped[0].path << ": " << newest.skipped[0].reason;
  EXPECT_NE(std::find(steps.begin(), steps.end(), newest.step), steps.end()) << newest.path;
  const OpenCheckpoint opened = open_checkpoint(disk, newest.path);
  EXPECT_TRUE(CheckpointFixture(newest.step).equals(opened) ||
              CheckpointFixture(newest.step, "again").equals(opened));
  for (const FolderEntry& entry : disk.list("/out")) {
    const std::string path = join_path("/out", entry.name);
    const bool link = entry.kind == FileKind::kLink && (entry.name == "best" || entry.name == "last");
    if (!checkpoint_step(entry.name) && !(link && !links_may_dangle)) continue;
    EXPECT_EQ(find_damage(disk, path, VerifyDepth::kHashes), std::nullopt) << path;
  }
  remove_leftovers(disk, "/out");
  EXPECT_EQ(find_newest_verified(disk, "/out").step, newest.step);
  save_link_and_rotate(disk, 10);
  EXPECT_EQ(find_newest_verified(disk, "/out").step, 10);
  for (const FolderEntry& entry : disk.list("/out"))
    EXPECT_FALSE(entry.name.starts_with("tmp-")) << entry.name;
}

void expect_sound_after_every_crash(const MemoryFileSystem& disk, const std::vector<int64_t>& steps,
                                    bool links_may_dangle) {
  for (const AfterCrash policy : kAllCrashes) {
    SCOPED_TRACE(fmt::format("kind of crash {}", static_cast<int>(policy)));
    const auto after = disk.clone();
    after->crash(policy);
    expect_sound(*after, steps, links_may_dangle);
  }
}

// Runs the action again and again, with a power failure before system call 0, 1, 2, ..., until the action succeeds. After each failure, the
// step of the newest checkpoint must be in `steps`. After success it must be that of the last element of `steps`, even if the power fails
// later. Returns the number of calls.
int64_t lose_power_at_every_call(const MemoryFileSystem& start, const Action& action,
                                 const std::vector<int64_t>& steps, bool links_may_dangle) {
  for (int64_t call = 0;; ++call) {
    const auto disk = start.clone();
    FaultyFileSystem files(*disk);
    files.lose_power_at(call);
    try {
      action(files);
      SCOPED_TRACE("power lost after the last call");
      expect_sound_after_every_crash(*disk, {steps.back()}, false);
      return call;
    } catch (const PowerLoss&) {
    }
    SCOPED_TRACE(fmt::format("power lost before call {} ({})", call, files.trace().back()));
    expect_sound_after_every_crash(*disk, steps, links_may_dangle);
  }
}

TEST(CheckpointFault, PowerLossWhileSaving) {
  const auto disk = disk_with_two_checkpoints();
  const int64_t num_calls = lose_power_at_every_call(
      *disk, [](FileSystem& files) { CheckpointFixture(6).save(files); }, {4, 6}, false);
  EXPECT_GT(num_calls, 35);
}

TEST(CheckpointFault, PowerLossWhileSavingAndRotating) {
  const auto disk = disk_with_two_checkpoints();
  const int64_t num_calls = lose_power_at_every_call(
      *disk, [](FileSystem& files) { save_link_and_rotate(files, 6); }, {4, 6}, false);
  EXPECT_GT(num_calls, 50);
}

TEST(CheckpointFault, PowerLossWhileSavingAStepAgain) {
  const auto disk = disk_with_two_checkpoints();
  const int64_t num_calls = lose_power_at_every_call(
      *disk, [](FileSystem& files) { CheckpointFixture(4, "again").save(files); }, {4}, true);
  EXPECT_GT(num_calls, 40);
}

TEST(CheckpointFault, PowerLossWhileCleaning) {
  // The disk contains every kind of file and folder that a killed run can leave.
  const auto disk = disk_with_two_checkpoints();
  CheckpointFixture(4).save(*disk);
  disk->rename("/out/checkpoint-4", "/out/checkpoint-4.replaced");
  CheckpointFixture(4).prepare(*disk);
  make_folders(*disk, "/out/tmp-checkpoint-6");
  write_synced_file(*disk, "/out/tmp-checkpoint-6/config.json", "{");
  make_folders(*disk, "/out/tmp-removed-checkpoint-1");
  write_synced_file(*disk, "/out/tmp-removed-checkpoint-1/config.json", "{");
  disk->sync_folder("/out");
  const int64_t num_calls = lose_power_at_every_call(
      *disk, [](FileSystem& files) { remove_leftovers(files, "/out"); }, {4}, true);
  EXPECT_GT(num_calls, 5);
}

// Makes each system call in turn fail with ENOSPC (disk full) or EIO: either only this call, or this call and all later ones. Earlier
// checkpoints must remain loadable. The error must have the code for disk errors and name the file, the cause and the remedy. On a full
// disk, the incomplete checkpoint must be removed.
TEST(CheckpointFault, FailingAndFullDisks) {
  int64_t num_failures = 0;
  for (const int error_number : {ENOSPC, EIO}) {
    for (const bool persistent : {false, true}) {
      for (int64_t call = 0;; ++call) {
        const auto disk = disk_with_two_checkpoints();
        FaultyFileSystem files(*disk);
        if (persistent) {
          files.fail_from(call, error_number);
        } else {
          files.fail_at(call, error_number);
        }
        std::string message;
        try {
          CheckpointFixture(6).save(files);
          if (files.num_calls() <= call) break;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kDevice);
          message = error.what();
        }
        SCOPED_TRACE(fmt::format("errno {} at call {}: {}", error_number, call, message));
        EXPECT_TRUE(message.starts_with("/out/checkpoint-6 was not saved: cannot ")) << message;
        EXPECT_NE(message.find(error_number == ENOSPC ? "(ENOSPC); free space" : "(EIO); the disk"),
                  std::string::npos);
        EXPECT_TRUE(message.ends_with("Earlier checkpoints are unchanged"));
        EXPECT_FALSE(disk->status("/out/tmp-checkpoint-6")) << "the room is given back";
        EXPECT_EQ(find_damage(*disk, "/out/checkpoint-2", VerifyDepth::kHashes), std::nullopt);
        EXPECT_EQ(find_damage(*disk, "/out/checkpoint-4", VerifyDepth::kHashes), std::nullopt);
        expect_sound(*disk, {4, 6}, false);
        ++num_failures;
      }
    }
  }
  EXPECT_GT(num_failures, 120);
}

TEST(CheckpointFault, FailuresWhileRotatingAndLinkingHarmNothing) {
  int64_t num_failures = 0;
  for (int64_t call = 0;; ++call) {
    const auto disk = disk_with_two_checkpoints();
    CheckpointFixture(6).save(*disk);
    FaultyFileSystem files(*disk);
    files.fail_at(call, EIO);
    try {
      point_link(files, "/out", "last", "/out/checkpoint-6");
      rotate_checkpoints(files, "/out", 1, "/out/checkpoint-6", "/out/checkpoint-2");
      break;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDevice);
    }
    ++num_failures;
    expect_sound(*disk, {6}, false);
  }
  EXPECT_GT(num_failures, 10);
}

// A checkpoint that cannot be read must be skipped with a reason, and the previous one must be used.
TEST(CheckpointFault, UnreadableCheckpointsAreSkipped) {
  const auto disk = disk_with_two_checkpoints();
  FaultyFileSystem files(*disk);
  files.fail_reads_of("/out/checkpoint-4/model.safetensors", EIO);
  const NewestCheckpoint newest = find_newest_verified(files, "/out");
  EXPECT_EQ(newest.step, 2);
  ASSERT_EQ(newest.skipped.size(), 1u);
  EXPECT_NE(newest.skipped[0].reason.find("Input/output error"), std::string::npos)
      << newest.skipped[0].reason;
}

}  // namespace
}  // namespace plimsoll
