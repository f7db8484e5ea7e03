// Tests that several ranks together write the same files as one rank alone, and that a failing disk, a full disk or a power failure at
// any system call does not damage earlier checkpoints.
#include "io/ckpt/shared_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>

#include "base/file_fault.h"
#include "io/ckpt/testing/checkpoint_fixture.h"

namespace plimsoll {
namespace {

// How the tensors are distributed among the ranks.
enum class Division : uint8_t {
  kNone,       // each rank has all tensors completely
  kDivided,    // each rank has a contiguous byte range of each tensor
  kExchanged,  // each rank has values of each tensor that are not contiguous in the file
};

// The contents of a checkpoint, distributed among several ranks. The weights are divided into two shards.
class RanksFixture {
 public:
  RanksFixture(int64_t step, int num_ranks, Division division)
      : one_(step), num_ranks_(num_ranks), division_(division) {
    one_.contents.model.max_shard_bytes = 52;
    one_.contents.model.tensors.push_back(
        {.name = "encoder.codes", .dtype = DType::kU8, .shape = {5, 1000}, .data = codes_.data()});
    std::iota(codes_.begin(), codes_.end(), static_cast<uint8_t>(step));
  }

  void prepare(FileSystem& files) const { one_.prepare(files); }
  std::string save_alone(FileSystem& files) const {
    one_.prepare(files);
    return save_checkpoint(files, one_.output, step(), one_.contents);
  }
  int64_t step() const { return std::stoll(one_.contents.run_state_json.substr(9)); }

  std::unique_ptr<SharedCheckpoint> of_rank(FileSystem& files, int rank) const {
    CheckpointContents contents = one_.contents;
    for (auto* tensors : {&contents.model.tensors, &contents.optimizer_tensors}) {
      for (TensorSource& tensor : *tensors) divide(tensor, rank);
    }
    return std::make_unique<SharedCheckpoint>(files, one_.output, step(), std::move(contents), rank,
                                              num_ranks_);
  }

  // Saves a checkpoint with all ranks one after the other. Each rank has its own FileSystem object, which can fail independently. After
  // an error the temporary folder is removed, as in a real run.
  std::string save(const std::vector<FileSystem*>& files, bool copies) const {
    prepare(*files[0]);
    std::vector<std::unique_ptr<SharedCheckpoint>> ranks;
    std::vector<std::vector<std::byte>> copied(static_cast<size_t>(num_ranks_));
    for (int rank = 0; rank < num_ranks_; ++rank) {
      ranks.push_back(of_rank(*files[static_cast<size_t>(rank)], rank));
      if (!copies) continue;
      copied[static_cast<size_t>(rank)].resize(static_cast<size_t>(ranks.back()->own_bytes()));
      ranks.back()->copy_to(copied[static_cast<size_t>(rank)]);
    }
    try {
      ranks[0]->create_files();
      std::vector<WrittenPart> parts;
      for (const auto& rank : ranks) {
        for (const WrittenPart& part : rank->write_parts(false)) parts.push_back(part);
      }
      return ranks[0]->commit(parts);
    } catch (const Error&) {
      ranks[0]->discard();
      throw;
    }
  }
  std::string save(FileSystem& files, bool copies = false) const {
    return save(std::vector<FileSystem*>(static_cast<size_t>(num_ranks_), &files), copies);
  }

 private:
  void divide(TensorSource& tensor, int rank) const {
    if (division_ == Division::kNone) return;
    const auto* data = static_cast<const std::byte*>(std::exchange(tensor.data, nullptr));
    const auto read = [data](int64_t offset, std::span<std::byte> bytes) {
      std::memcpy(bytes.data(), data + offset, bytes.size());
    };
    tensor.fill = read;
    tensor.is_exchanged = division_ == Division::kExchanged;
    if (tensor.is_exchanged) return;
    // Each rank has a byte range of the tensor that begins at a multiple of 8 bytes. The ranges of the last ranks may be shorter or empty.
    const int64_t size = tensor.size_bytes();
    const int64_t slice = (size + num_ranks_ * 8 - 1) / (num_ranks_ * 8) * 8;
    const int64_t begin = std::min(size, rank * slice), end = std::min(size, begin + slice);
    tensor.own = TensorSource::OwnBytes{
        .begin = begin, .end = end, .fill = [read, begin, end](int64_t offset, std::span<std::byte> bytes) {
          ASSERT_GE(offset, begin);
          ASSERT_LE(offset + std::ssize(bytes), end);
          read(offset, bytes);
        }};
  }

  CheckpointFixture one_;
  int num_ranks_;
  Division division_;
  std::vector<uint8_t> codes_ = std::vector<uint8_t>(5000);
};

std::string content_of(FileSystem& files, const std::string& path) {
  const auto file = files.open_read(path);
  std::string text(static_cast<size_t>(file->size_bytes()), '\0');
  file->pread(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

TEST(SharedCheckpoint, FilesHaveTheBytesThatOneRankWrites) {
  MemoryFileSystem alone;
  RanksFixture(3, 1, Division::kNone).save_alone(alone);
  for (const int num_ranks : {1, 2, 3, 5, 40}) {
    for (const Division division : {Division::kNone, Division::kDivided, Division::kExchanged}) {
      for (const bool copies : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{} ranks, division {}, copies {}", num_ranks, static_cast<int>(division), copies));
        MemoryFileSystem files;
        const std::string path = RanksFixture(3, num_ranks, division).save(files, copies);
        EXPECT_EQ(path, "/out/checkpoint-3");
        EXPECT_EQ(find_damage(files, path, VerifyDepth::kHashes), std::nullopt);
        EXPECT_FALSE(files.status("/out/tmp-checkpoint-3"));
        const std::vector<FolderEntry> entries = alone.list(path);
        ASSERT_EQ(files.list(path).size(), entries.size());
        for (const FolderEntry& entry : entries) {
          if (entry.name == kManifestFile) continue;
          EXPECT_TRUE(content_of(files, join_path(path, entry.name)) ==
                      content_of(alone, join_path(path, entry.name)))
              << entry.name;
        }
        const NewestCheckpoint newest = find_newest_verified(files, "/out");
        EXPECT_EQ(newest.step, 3);
      }
    }
  }
}

// If every rank has all tensors, each rank must write at most ceil(bytes / ranks) bytes of each file, rounded up to a multiple of 64 bytes,
// where `bytes` is the size of the tensors in the file. The checkpoint of the test has four files with 12 to 5,000 bytes of tensors.
TEST(SharedCheckpoint, RanksWriteAboutEquallyMuch) {
  for (const int num_ranks : {2, 3, 5}) {
    MemoryFileSystem files;
    const RanksFixture fixture(3, num_ranks, Division::kNone);
    int64_t sum = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
      const int64_t own = fixture.of_rank(files, rank)->own_bytes();
      EXPECT_LE(own, (5000 + 60 + 96) / num_ranks + 4 * 64);
      sum += own;
    }
    EXPECT_EQ(sum, 5000 + 60 + 96);
  }
}

TEST(SharedCheckpoint, EveryFlippedByteIsFound) {
  MemoryFileSystem good;
  RanksFixture(3, 3, Division::kDivided).save(good);
  int64_t num_flips = 0;
  for (const FolderEntry& entry : good.list("/out/checkpoint-3")) {
    const std::string path = join_path("/out/checkpoint-3", entry.name);
    if (entry.name == kManifestFile) continue;
    for (int64_t byte = 0; byte < good.status(path)->size_bytes; byte += 7) {
      const auto bad = good.clone();
      bad->damage(path, byte);
      EXPECT_NE(find_damage(*bad, "/out/checkpoint-3", VerifyDepth::kHashes), std::nullopt)
          << path << " " << byte;
      ++num_flips;
    }
  }
  EXPECT_GT(num_flips, 700);
}

// If the power fails before any system call of the save, the newest checkpoint must be either the old one or the new one, and undamaged.
TEST(SharedCheckpoint, PowerLossAtEveryCall) {
  MemoryFileSystem begun;
  RanksFixture(2, 2, Division::kDivided).save(begun);
  int64_t num_calls = 0;
  for (bool is_complete = false; !is_complete; ++num_calls) {
    const auto disk = begun.clone();
    FaultyFileSystem files(*disk);
    files.lose_power_at(num_calls);
    try {
      RanksFixture(4, 2, Division::kDivided).save(files);
      is_complete = true;
    } catch (const PowerLoss&) {
    }
    SCOPED_TRACE(fmt::format("power lost before call {}", num_calls));
    for (const AfterCrash policy : kAllCrashes) {
      const auto after = disk->clone();
      after->crash(policy);
      const NewestCheckpoint newest = find_newest_verified(*after, "/out");
      EXPECT_TRUE(newest.skipped.empty()) << static_cast<int>(policy) << " " << newest.skipped[0].reason;
      EXPECT_TRUE(newest.step == 4 || (newest.step == 2 && !is_complete)) << newest.step;
      remove_leftovers(*after, "/out");
      EXPECT_FALSE(after->status("/out/tmp-checkpoint-4"));
      RanksFixture(6, 2, Division::kDivided).save(*after);
      EXPECT_EQ(find_newest_verified(*after, "/out").step, 6);
    }
  }
  EXPECT_GT(num_calls, 40);
}

// Lets each system call of one rank fail. The error must name the file and the cause, and the incomplete checkpoint must be removed from
// the disk.
TEST(SharedCheckpoint, AFullDiskOfOneRankLosesNothing) {
  for (const int failing : {0, 1}) {
    for (const Division division : {Division::kDivided, Division::kExchanged}) {
      int64_t call = 0;
      for (;; ++call) {
        MemoryFileSystem disk;
        RanksFixture(2, 2, division).save(disk);
        FaultyFileSystem files(disk);
        files.fail_from(call, ENOSPC);
        std::vector<FileSystem*> views = {&disk, &disk};
        views[static_cast<size_t>(failing)] = &files;
        std::string message;
        try {
          RanksFixture(4, 2, division).save(views, failing == 1);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kDevice);
          message = error.what();
        }
        if (message.empty()) break;
        EXPECT_NE(message.find(" '/out"), std::string::npos) << message;
        EXPECT_NE(message.find("No space left on device (ENOSPC)"), std::string::npos) << message;
        EXPECT_FALSE(disk.status("/out/tmp-checkpoint-4")) << message;
        // If only the final sync of the folder fails, the rename has already made the new checkpoint complete, although it may be lost in
        // a power failure.
        const NewestCheckpoint newest = find_newest_verified(disk, "/out");
        EXPECT_EQ(newest.step, message.starts_with("cannot sync folder '/out'") ? 4 : 2) << message;
        EXPECT_TRUE(newest.skipped.empty());
      }
      // Rank 1 makes at least four system calls per tensor file: it opens the file, writes its part, syncs the file and closes it.
      EXPECT_GE(call, 8) << failing;
    }
  }
}

// If a save is cancelled because another rank has failed, write_parts() must return early, with a list of parts that contain fewer bytes
// than the rank has to write.
TEST(SharedCheckpoint, ACancelledRankStops) {
  MemoryFileSystem files;
  const RanksFixture fixture(3, 2, Division::kDivided);
  fixture.prepare(files);
  const auto rank = fixture.of_rank(files, 0);
  rank->create_files();
  int64_t bytes = 0;
  for (const WrittenPart& part : rank->write_parts(true)) bytes += part.bytes;
  EXPECT_LT(bytes, rank->own_bytes());
}

}  // namespace
}  // namespace plimsoll
