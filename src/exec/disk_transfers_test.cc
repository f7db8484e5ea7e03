// Tests transfers between memory and a scratch file: values at every alignment, several transfers at a time, and disks that fail.
#include "exec/disk_transfers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/disk_transfer.h"
#include "base/file_fault.h"
#include "base/hash.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

std::vector<std::byte> bytes_of(int64_t count, int64_t seed) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + static_cast<size_t>(seed) * 17 + i / 251) & 0xff);
  return bytes;
}

// A value in memory that is copied to and from the file.
class Value {
 public:
  Value(std::vector<std::byte> bytes, int64_t offset, int64_t value_end)
      : bytes_(std::move(bytes)), part_{bytes_.data(), offset, std::ssize(bytes_), value_end} {}
  std::shared_ptr<DiskTransfer> transfer(TransferDirection direction) {
    return std::make_shared<DiskTransfer>(direction, std::span(&part_, 1));
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  DiskTransfer::Part part_;
};

void run(DiskTransfers& disk, const std::shared_ptr<DiskTransfer>& transfer) {
  disk.start(transfer, 1);
  disk.wait_before(1);
  disk.wait_for_all();
}

// Sizes of values, in bytes: around the sizes of blocks and of pieces, which are the units that one request transfers.
const std::vector<int64_t> kSizes{1,
                                  511,
                                  kBlockBytes - 1,
                                  kBlockBytes,
                                  kBlockBytes + 1,
                                  3 * kBlockBytes,
                                  kTransferPieceBytes - kBlockBytes,
                                  kTransferPieceBytes,
                                  kTransferPieceBytes + 1,
                                  5 * kTransferPieceBytes + 12345};

TEST(DiskTransfers, ValuesOfEverySizeReturnAsTheyWereWritten) {
  MemoryFileSystem files;
  DiskTransfers disk(files.create_scratch("states", 8 * kTransferPieceBytes), 1);
  for (const int64_t size : kSizes) {
    for (const int64_t offset : {int64_t{0}, int64_t{kBlockBytes}, int64_t{4}, int64_t{kBlockBytes - 2}}) {
      SCOPED_TRACE(fmt::format("{} bytes at {}", size, offset));
      Value written(bytes_of(size, offset), offset, offset + size);
      run(disk, written.transfer(TransferDirection::kToDisk));
      Value read(std::vector<std::byte>(static_cast<size_t>(size)), offset, offset + size);
      run(disk, read.transfer(TransferDirection::kFromDisk));
      EXPECT_EQ(hash64(read.bytes()), hash64(written.bytes()));
    }
  }
}

// Several threads write slices of a parameter at the same time. The slices begin and end in the
// middle of blocks, and writing one must not change the bytes of another.
TEST(DiskTransfers, SlicesThatShareBlocksAreWrittenAtTheSameTime) {
  const test::ScratchFolder folder;
  constexpr int64_t kSlice = 3 * kBlockBytes + 1000, kNumSlices = 60;
  DiskTransfers disk(posix_file_system().create_scratch(folder.path() + "/states",
                                                        rounded_up_to_blocks(kSlice * kNumSlices)),
                     kNumSlices);
  for (int64_t round = 0; round < 3; ++round) {
    std::vector<std::byte> whole;
    std::vector<Value> slices;
    slices.reserve(kNumSlices);
    for (int64_t i = 0; i < kNumSlices; ++i) {
      slices.emplace_back(bytes_of(kSlice, 100 * round + i), i * kSlice, kNumSlices * kSlice);
      whole.insert(whole.end(), slices.back().bytes().begin(), slices.back().bytes().end());
    }
    for (Value& slice : slices) disk.start(slice.transfer(TransferDirection::kToDisk), kNumSlices);
    disk.wait_for_all();
    std::vector<std::byte> read(whole.size());
    disk.read(read, 0);
    EXPECT_EQ(hash64(read), hash64(whole));
  }
}

// wait_before(p) must wait for the transfers that have to end before position p, whatever the order in which they were started.
TEST(DiskTransfers, AWaitIsForTheTransfersBeforeItsPosition) {
  MemoryFileSystem files;
  DiskTransfers disk(files.create_scratch("states", 4 * kTransferPieceBytes), 3);
  Value first(bytes_of(kTransferPieceBytes, 1), 0, kTransferPieceBytes);
  Value second(bytes_of(kTransferPieceBytes, 2), kTransferPieceBytes, 2 * kTransferPieceBytes);
  disk.start(first.transfer(TransferDirection::kToDisk), 7);
  disk.start(second.transfer(TransferDirection::kToDisk), 5);
  disk.wait_before(4);
  disk.wait_before(5);
  disk.wait_before(7);
  disk.wait_for_all();
  std::vector<std::byte> read(static_cast<size_t>(2 * kTransferPieceBytes));
  disk.read(read, 0);
  EXPECT_TRUE(std::equal(first.bytes().begin(), first.bytes().end(), read.begin()));
  EXPECT_TRUE(std::equal(second.bytes().begin(), second.bytes().end(), read.begin() + kTransferPieceBytes));
}

TEST(DiskTransfers, CheckpointsReadAndWritePartsOfValues) {
  MemoryFileSystem files;
  DiskTransfers disk(files.create_scratch("states", 4 * kTransferPieceBytes), 1);
  disk.fill(0, 4 * kTransferPieceBytes, 0xab);
  const std::vector<std::byte> part = bytes_of(kTransferPieceBytes + 777, 3);
  disk.write(part, 5000);
  std::vector<std::byte> all(static_cast<size_t>(4 * kTransferPieceBytes));
  disk.read(all, 0);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 5000));
  EXPECT_TRUE(std::all_of(all.begin(), all.begin() + 5000, [](std::byte b) { return b == std::byte{0xab}; }));
  EXPECT_TRUE(std::all_of(all.begin() + 5000 + std::ssize(part), all.end(),
                          [](std::byte b) { return b == std::byte{0xab}; }));
}

// A failure is reported by the first wait that needs the failed transfer, or earlier, and by all later waits. The file is removed.
TEST(DiskTransfers, AFailingDiskIsReportedByAllLaterWaits) {
  for (const int error_number : {ENOSPC, EIO}) {
    for (const bool reads : {false, true}) {
      MemoryFileSystem files;
      FaultyFileSystem faulty(files);
      {
        // The value must exist longer than the transfers: after the first failure, other pieces may still be read from it.
        Value value(bytes_of(8 * kTransferPieceBytes, 1), 0, 8 * kTransferPieceBytes);
        DiskTransfers disk(faulty.create_scratch("states", 8 * kTransferPieceBytes), 2);
        if (reads) {
          faulty.fail_reads_of("states", error_number);
        } else {
          faulty.fail_from(faulty.num_calls() + 2, error_number);
        }
        disk.start(value.transfer(reads ? TransferDirection::kFromDisk : TransferDirection::kToDisk), 3);
        for (int i = 0; i < 2; ++i) {
          try {
            disk.wait_before(3);
            FAIL() << "the failure is not reported";
          } catch (const FileError& error) {
            EXPECT_EQ(error.code(), ErrorCode::kDevice);
            EXPECT_EQ(error.error_number(), error_number);
            EXPECT_EQ(error.operation(), reads ? FileOperation::kRead : FileOperation::kWrite);
          }
        }
        EXPECT_THROW(disk.wait_for_all(), FileError);
      }
      EXPECT_FALSE(files.status("states").has_value());
    }
  }
}

// The memory of a simulated device: its work ends only when the test says so, and a copy may fail.
class SimulatedMemory final : public TransferMemory {
 public:
  std::byte* buffers() const override { return host_->buffers(); }
  void begin_thread() override { ++num_threads_; }
  void mark(size_t point) override {
    const std::lock_guard lock(mutex_);
    marked_ = std::max(marked_, point + 1);
  }
  void wait_for(size_t point) const override {
    std::unique_lock lock(mutex_);
    is_reached_.wait(lock, [&] { return point < reached_; });
  }
  void copy(size_t thread, std::byte* to, const std::byte* from, int64_t bytes) override {
    if (fails) throw_error(ErrorCode::kDevice, "the copy of {} bytes failed", bytes);
    copied += bytes;
    host_->copy(thread, to, from, bytes);
  }
  // Simulates that the device has finished the work that came before the first `points` calls of mark().
  void reach(size_t points) {
    {
      const std::lock_guard lock(mutex_);
      reached_ = points;
    }
    is_reached_.notify_all();
  }
  size_t marked() const {
    const std::lock_guard lock(mutex_);
    return marked_;
  }
  int num_threads() const { return num_threads_; }

  std::atomic<int64_t> copied = 0;
  std::atomic<bool> fails = false;

 private:
  std::unique_ptr<TransferMemory> host_ = make_cpu_transfer_memory();
  mutable std::mutex mutex_;
  mutable std::condition_variable is_reached_;
  size_t marked_ = 0;
  size_t reached_ = 0;
  std::atomic<int> num_threads_ = 0;
};

// A transfer starts after the work that the device received before it, and not after later work. Each of its bytes is copied
// once between the device and a buffer. read() and write(), which checkpoints use, transfer host memory and copy nothing to
// or from the device.
TEST(DiskTransfers, WaitForTheWorkOfADeviceBeforeThem) {
  MemoryFileSystem files;
  auto device = std::make_unique<SimulatedMemory>();
  SimulatedMemory& memory = *device;
  DiskTransfers disk(files.create_scratch("states", 8 * kTransferPieceBytes), 2, std::move(device));
  const std::vector<std::byte> old = bytes_of(2 * kTransferPieceBytes, 5);
  disk.write(old, 0);
  EXPECT_EQ(memory.copied, 0);
  Value read(std::vector<std::byte>(old.size()), 0, std::ssize(old));
  Value written(bytes_of(3 * kTransferPieceBytes, 6), 2 * kTransferPieceBytes, 5 * kTransferPieceBytes);
  disk.start(read.transfer(TransferDirection::kFromDisk), 1);
  disk.start(written.transfer(TransferDirection::kToDisk), 2);
  EXPECT_EQ(memory.marked(), 2u);
  EXPECT_EQ(memory.copied, 0) << "the device has not done the work before";
  memory.reach(1);
  disk.wait_before(1);
  EXPECT_EQ(memory.copied, std::ssize(old));
  EXPECT_EQ(hash64(read.bytes()), hash64(old));
  memory.reach(2);
  disk.wait_for_all();
  EXPECT_EQ(memory.copied, 5 * kTransferPieceBytes);
  std::vector<std::byte> stored(written.bytes().size());
  disk.read(stored, 2 * kTransferPieceBytes);
  EXPECT_EQ(hash64(stored), hash64(written.bytes()));
  EXPECT_GE(memory.num_threads(), 2);
  EXPECT_LE(memory.num_threads(), 2 * kThreadsPerDirection);
}

TEST(DiskTransfers, AFailingDeviceIsReportedAsAFailingDiskIs) {
  MemoryFileSystem files;
  auto device = std::make_unique<SimulatedMemory>();
  device->fails = true;
  device->reach(1);
  DiskTransfers disk(files.create_scratch("states", 8 * kTransferPieceBytes), 1, std::move(device));
  Value value(bytes_of(3 * kTransferPieceBytes, 1), 0, 3 * kTransferPieceBytes);
  disk.start(value.transfer(TransferDirection::kToDisk), 3);
  for (int i = 0; i < 2; ++i) {
    try {
      disk.wait_before(3);
      FAIL() << "the failure is not reported";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDevice);
      EXPECT_EQ(std::string(error.what()), fmt::format("the copy of {} bytes failed", kTransferPieceBytes));
    }
  }
}

}  // namespace
}  // namespace plimsoll
