#include "io/hub/snapshot_download.h"

#include <cerrno>

#include "io/hub/testing/simulated_hub.h"

namespace plimsoll {
namespace {

using testing::expect_complete;
using testing::expect_only_right_files;
using testing::kEnvironment;
using testing::kFolder;
using testing::SimulatedHub;
using testing::snapshot_file;
using testing::World;

TEST(SnapshotDownload, FillsThePublishedLayout) {
  World world;
  MemoryFileSystem files;
  SnapshotDownload download(files, world.requests, kEnvironment, world.request, ModelParts::kAll);
  EXPECT_EQ(download.plan().files.size(), 3u);
  EXPECT_EQ(download.plan().missing_bytes(), 23 + 24);
  EXPECT_EQ(files.list("/").size(), 0u) << "a plan writes nothing";
  download.run();
  expect_complete(files, world.hub, "first");
  EXPECT_FALSE(files.status(snapshot_file("sub/notes.txt")));
  EXPECT_EQ(find_in_hub_cache(files, kEnvironment, "org/name"), download.plan().folder);
  EXPECT_TRUE(is_snapshot_complete(files, kFolder, SimulatedHub::kCommit, ModelParts::kAll));
  // A second download must send only the request for the commit.
  world.hub.log.clear();
  world.download(files);
  ASSERT_EQ(world.hub.log.size(), 1u);
  // The file is in a subfolder of the snapshot, so the relative path in its link has one more "../".
  world.request.files = {"sub/notes.txt"};
  world.download(files);
  EXPECT_EQ(files.read_link(snapshot_file("sub/notes.txt")),
            "../../../blobs/" + world.hub.etag("sub/notes.txt"));
  EXPECT_EQ(read_text_file(files, snapshot_file("sub/notes.txt"), 100), "not read");
  EXPECT_TRUE(files.status("/cache/.locks/models--org--name/" + world.hub.etag("vocab.txt") + ".lock") ||
              files.status("/cache/.locks/models--org--name/" + world.hub.etag("config.json") + ".lock"));
}

TEST(SnapshotDownload, OnlyTheHubReceivesTheToken) {
  World world;
  MemoryFileSystem files;
  world.download(files);
  int num_stored = 0;
  for (const std::string& line : world.hub.log) {
    const bool is_own = line.find(" http://hub/") != std::string::npos;
    num_stored += is_own ? 0 : 1;
    EXPECT_EQ(line.find("Authorization: Bearer secret") != std::string::npos, is_own) << line;
  }
  EXPECT_EQ(num_stored, 1);
}

// Tests that a download is completed although the connection breaks after any number of bytes, once, four times or in every request.
TEST(SnapshotDownload, ContinuesAfterACutAtEveryByte) {
  for (int64_t cut = 0; cut <= 24; ++cut) {
    for (const int num_cuts : {1, 4, 1000}) {
      World world;
      world.hub.cut = cut;
      world.hub.num_cuts = num_cuts;
      world.hub.bytes_per_call = 1 + cut % 7;
      MemoryFileSystem files;
      const std::string where = fmt::format("cut {} x {}", cut, num_cuts);
      if (cut == 0 && num_cuts == 1000) {
        EXPECT_NE(
            world.failure(files, ErrorCode::kDevice).find("after 0 of 23 bytes: the connection was closed"),
            std::string::npos);
        EXPECT_EQ(world.pace.waited_ms, 15000);
      } else {
        world.download(files);
        expect_complete(files, world.hub, where);
        EXPECT_EQ(world.hub.num_bytes, 23 + 24) << where << ": no byte is received twice";
      }
    }
  }
}

// The user's callback stops the download again and again. Each time, the next process must continue it, and at most one byte per
// interruption may be downloaded twice.
TEST(SnapshotDownload, ContinuesAfterEveryInterruption) {
  MemoryFileSystem files;
  World world;
  world.hub.bytes_per_call = 1;
  int num_interruptions = 0;
  for (int calls = 0; calls < 200; ++calls) {
    world.callback.calls_left = calls % 40 + 8;
    try {
      world.download(files);
      break;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kInterrupted) << error.what();
      ++num_interruptions;
    }
    expect_only_right_files(files, world.hub, "interrupted");
  }
  expect_complete(files, world.hub, "continued");
  EXPECT_GT(num_interruptions, 2);
  EXPECT_LE(world.hub.num_bytes, 23 + 24 + num_interruptions)
      << "an interruption costs at most the byte in flight";
}

// The power fails before any system call, and the disk may then be in any state that POSIX allows. No file with a final name may have
// wrong content, and the next download must complete the snapshot.
TEST(SnapshotDownload, SurvivesPowerLossAtEveryCall) {
  int64_t num_calls = 0;
  for (int64_t call = 0; call < 200; ++call) {
    MemoryFileSystem disk;
    World world;
    FaultyFileSystem files(disk);
    files.lose_power_at(call);
    bool has_power = true;
    try {
      world.download(files);
    } catch (const PowerLoss&) {
      has_power = false;
    }
    if (has_power) break;
    num_calls = call + 1;
    for (const AfterCrash policy : kAllCrashes) {
      const auto after = disk.clone();
      after->crash(policy);
      const std::string where = fmt::format("call {} {}", call, files.trace().back());
      expect_only_right_files(*after, world.hub, where);
      World next;
      next.download(*after);
      expect_complete(*after, next.hub, where);
    }
  }
  EXPECT_GT(num_calls, 30);
}

// Simulates a full disk: lets one system call fail, or this call and all later ones. The error must say that the disk is full, and the
// next download must succeed when the disk has space.
TEST(SnapshotDownload, AFullDiskIsAnErrorAtEveryCall) {
  for (const bool stays_full : {false, true}) {
    int64_t call = 0;
    for (; call < 200; ++call) {
      MemoryFileSystem disk;
      World world;
      FaultyFileSystem files(disk);
      stays_full ? files.fail_from(call, ENOSPC) : files.fail_at(call, ENOSPC);
      bool has_failed = false;
      try {
        world.download(files);
      } catch (const FileError& error) {
        has_failed = true;
        EXPECT_EQ(error.error_number(), ENOSPC);
        EXPECT_EQ(error.code(), ErrorCode::kDevice);
      }
      if (!has_failed && files.num_calls() <= call) break;
      const std::string where = fmt::format("call {} {}", call, files.trace().back());
      expect_only_right_files(disk, world.hub, where);
      world.download(disk);
      expect_complete(disk, world.hub, where);
    }
    EXPECT_GT(call, 30);
  }
}

}  // namespace
}  // namespace plimsoll
