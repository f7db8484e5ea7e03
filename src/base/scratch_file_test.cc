// Tests the scratch files of this machine and those of the simulated disk (base/file_fault.h).
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/file_fault.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

// A buffer whose address is a multiple of kBlockBytes, as direct transfers require.
class Blocks {
 public:
  explicit Blocks(int64_t count)
      : bytes_(count * kBlockBytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, static_cast<size_t>(bytes_))),
              &std::free) {
    for (int64_t i = 0; i < bytes_; ++i) data_.get()[i] = static_cast<std::byte>(i * 7 + i / kBlockBytes);
  }
  std::span<std::byte> all() const { return {data_.get(), static_cast<size_t>(bytes_)}; }
  std::span<std::byte> block(int64_t i) const {
    return all().subspan(static_cast<size_t>(i * kBlockBytes), static_cast<size_t>(kBlockBytes));
  }

 private:
  int64_t bytes_;
  std::unique_ptr<std::byte, void (*)(void*)> data_;
};

bool is_equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::ranges::equal(a, b);
}

bool exists(const std::string& path) {
  return posix_file_system().status(path).has_value();
}

TEST(ScratchFile, BlocksAreReadAsTheyWereWrittenAndTheFileIsRemoved) {
  const test::ScratchFolder folder;
  const std::string path = folder.path() + "/states";
  const Blocks written(3), read(3);
  {
    const auto file = posix_file_system().create_scratch(path, 5 * kBlockBytes);
    EXPECT_EQ(file->path(), path);
    EXPECT_EQ(posix_file_system().status(path)->size_bytes, 5 * kBlockBytes);
    file->read(read.all(), 2 * kBlockBytes);
    EXPECT_TRUE(std::ranges::all_of(read.all(), [](std::byte byte) { return byte == std::byte{0}; }));
    file->write(written.all(), kBlockBytes);
    file->write(written.block(0), 4 * kBlockBytes);
    file->read(read.all(), kBlockBytes);
    EXPECT_TRUE(is_equal(read.all(), written.all()));
    file->read(read.block(1), 4 * kBlockBytes);
    EXPECT_TRUE(is_equal(read.block(1), written.block(0)));
  }
  EXPECT_FALSE(exists(path));
}

// A transfer that does not consist of whole blocks works on some disks and fails on others. Scratch files must refuse it
// everywhere, so that such an error in the program is noticed.
TEST(ScratchFile, RefusesDirectTransfersThatAreNotWholeBlocks) {
  const test::ScratchFolder folder;
  const auto file = posix_file_system().create_scratch(folder.path() + "/states", 4 * kBlockBytes);
  if (!file->is_direct()) GTEST_SKIP() << "the file system of " << folder.path() << " refuses O_DIRECT";
  const Blocks blocks(2);
  EXPECT_THROW(file->read(blocks.block(0), 512), Error);
  EXPECT_THROW(file->read(blocks.all().subspan(0, 512), 0), Error);
  EXPECT_THROW(file->write(blocks.all().subspan(512, static_cast<size_t>(kBlockBytes)), 0), Error);
}

TEST(ScratchFile, AFileThatAKilledRunLeftIsReplaced) {
  const test::ScratchFolder folder;
  const std::string path = folder.path() + "/states";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto file = posix_file_system().create_scratch(path, 2 * kBlockBytes);
    file->write(Blocks(2).all(), 0);
    ::_exit(0);  // ends the process without destructors, as if it were killed
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(exists(path));
  const auto file = posix_file_system().create_scratch(path, kBlockBytes);
  EXPECT_EQ(posix_file_system().status(path)->size_bytes, kBlockBytes);
  const Blocks read(1);
  file->read(read.all(), 0);
  EXPECT_TRUE(std::ranges::all_of(read.all(), [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(ScratchFile, AFileOfARunThatLivesIsLeftAlone) {
  const test::ScratchFolder folder;
  const std::string path = folder.path() + "/states";
  const Blocks written(1), read(1);
  const auto file = posix_file_system().create_scratch(path, kBlockBytes);
  file->write(written.all(), 0);
  try {
    const auto second = posix_file_system().create_scratch(path, kBlockBytes);
    FAIL() << "two runs have one file";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    EXPECT_NE(std::string(error.what()).find("another run has the file open"), std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(exists(path));
  file->read(read.all(), 0);
  EXPECT_TRUE(is_equal(read.all(), written.all()));
}

TEST(ScratchFile, AFileThatWasCutIsNotReadAsZeros) {
  const test::ScratchFolder folder;
  const std::string path = folder.path() + "/states";
  const auto file = posix_file_system().create_scratch(path, 4 * kBlockBytes);
  ASSERT_EQ(::truncate(path.c_str(), 3 * kBlockBytes), 0);
  const Blocks read(4);
  file->read(read.all().first(static_cast<size_t>(3 * kBlockBytes)), 0);
  try {
    file->read(read.all(), 0);
    FAIL() << "a short read is not noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    EXPECT_NE(std::string(error.what()).find("ends before byte 16384"), std::string::npos) << error.what();
  }
}

TEST(ScratchFile, AFolderThatDoesNotExistAndADiskThatIsFullAreNamed) {
  const test::ScratchFolder folder;
  EXPECT_THROW(posix_file_system().create_scratch(folder.path() + "/no/states", kBlockBytes), FileError);
  const std::string path = folder.path() + "/states";
  // The requested size, 2^61 bytes, is larger than any disk.
  EXPECT_THROW(posix_file_system().create_scratch(path, int64_t{1} << 61), FileError);
  EXPECT_FALSE(exists(path));
}

TEST(ScratchFile, SimulatedDisksFailOnDemand) {
  MemoryFileSystem memory;
  FaultyFileSystem faulty(memory);
  {
    const auto file = faulty.create_scratch("states", 4 * kBlockBytes);
    const Blocks written(2), read(2);
    faulty.fail_at(faulty.num_calls(), ENOSPC);
    EXPECT_THROW(file->write(written.all(), 0), FileError);
    // A failing write writes half of its bytes first, so the first block must contain the new data and the second one must not.
    file->read(read.all(), 0);
    EXPECT_TRUE(is_equal(read.block(0), written.block(0)));
    EXPECT_EQ(read.block(1)[5], std::byte{0});
    faulty.fail_reads_of("states", EIO);
    EXPECT_THROW(file->read(read.all(), 0), FileError);
    EXPECT_EQ(faulty.trace(),
              (std::vector<std::string>{"reserve disk space for states 16384", "write states 8192 at 0"}));
  }
  EXPECT_FALSE(memory.status("states").has_value());
}

TEST(FolderSpace, IsThatOfTheFolder) {
  const test::ScratchFolder folder;
  const FolderSpace space = posix_file_system().space_of(folder.path());
  EXPECT_TRUE(space.is_writable);
  EXPECT_GT(space.free_bytes, 0);
  EXPECT_THROW(posix_file_system().space_of(folder.path() + "/no"), FileError);
}

}  // namespace
}  // namespace plimsoll
