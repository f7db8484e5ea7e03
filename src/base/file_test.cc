#include "base/file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "base/file_fault.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string message_of(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

// Runs the same calls on the file system of the machine and on the simulated one, which must behave in the same way. Otherwise
// tests with the simulated disk would prove nothing about real disks.
void exercise(FileSystem& files, const std::string& root) {
  const std::string folder = join_path(root, "a/b");
  make_folders(files, folder);
  make_folders(files, folder);
  const std::string path = join_path(folder, "text");
  const auto file = files.create(path);
  file->write(bytes_of("hello "));
  file->write(bytes_of("world"));
  file->sync();
  file->close();
  EXPECT_EQ(read_text_file(files, path, 100), "hello world");
  EXPECT_EQ(files.status(path)->size_bytes, 11);
  EXPECT_FALSE(files.status(join_path(folder, "nothing")));
  EXPECT_FALSE(files.status(join_path(path, "below a file")));

  const auto appended = files.open_append(path);
  appended->write(bytes_of("!"));
  appended->close();
  EXPECT_EQ(read_text_file(files, path, 100), "hello world!");

  std::string part(5, '\0');
  read_exactly(*files.open_read(path), std::as_writable_bytes(std::span(part)), 6, "a word");
  EXPECT_EQ(part, "world");

  const WrittenFile copy = copy_synced_file(files, path, join_path(folder, "copy"));
  EXPECT_EQ(copy.size_bytes, 12);
  EXPECT_EQ(copy.name, "copy");
  EXPECT_EQ(copy.hash, hash128("hello world!"));
  EXPECT_EQ(hash_file(files, path).hash, copy.hash);

  // Two writers write to the same file at different offsets, and both parts must be in it.
  const std::string shared = join_path(folder, "shared");
  const auto created = files.create(shared);
  created->resize(6);
  created->close();
  const auto left = files.open_write(shared), right = files.open_write(shared);
  right->write_at(bytes_of("def"), 3);
  left->write_at(bytes_of("abc"), 0);
  right->start_sync(3, 3);
  for (const auto& writer : {left.get(), right.get()}) {
    writer->sync();
    writer->close();
  }
  EXPECT_EQ(read_text_file(files, shared, 100), "abcdef");
  EXPECT_NE(message_of([&] { files.open_write(join_path(folder, "nothing")); }, ErrorCode::kDevice)
                .find("cannot open for writing '" + join_path(folder, "nothing") + "': No such file"),
            std::string::npos);
  files.remove_file(shared);

  replace_file(files, path, "new");
  EXPECT_EQ(read_text_file(files, path, 100), "new");

  files.make_link("b/text", join_path(root, "a/link"));
  EXPECT_EQ(read_text_file(files, join_path(root, "a/link"), 100), "new");
  EXPECT_EQ(files.read_link(join_path(root, "a/link")), "b/text");
  EXPECT_FALSE(files.read_link(path));
  files.make_link("b", join_path(root, "a/folder_link"));
  EXPECT_EQ(read_text_file(files, join_path(root, "a/folder_link/copy"), 100), "hello world!");

  std::string listed;
  for (const FolderEntry& entry : files.list(join_path(root, "a"))) {
    listed += entry.name + (entry.kind == FileKind::kLink     ? "@ "
                            : entry.kind == FileKind::kFolder ? "/ "
                                                              : " ");
  }
  EXPECT_EQ(listed, "b/ folder_link@ link@ ");

  files.rename(join_path(root, "a/b"), join_path(root, "a/c"));
  EXPECT_EQ(read_text_file(files, join_path(root, "a/c/copy"), 100), "hello world!");
  files.sync_folder(join_path(root, "a"));

  // Removing a folder must remove the symbolic links in it, but not the files to which they point.
  make_folders(files, join_path(root, "kept"));
  write_synced_file(files, join_path(root, "kept/file"), "kept");
  files.make_link("../kept", join_path(root, "a/to_kept"));
  remove_tree(files, join_path(root, "a"));
  EXPECT_FALSE(files.status(join_path(root, "a")));
  EXPECT_TRUE(files.status(join_path(root, "kept/file")));
  remove_tree(files, join_path(root, "a"));
}

TEST(File, PosixAndMemoryAgree) {
  const test::ScratchFolder real;
  exercise(posix_file_system(), real.path());
  MemoryFileSystem memory;
  exercise(memory, "/");
}

void exercise_errors(FileSystem& files, const std::string& root) {
  const std::string missing = join_path(root, "missing");
  EXPECT_EQ(message_of([&] { files.open_read(missing); }, ErrorCode::kBadData),
            "cannot open '" + missing + "': No such file or directory (ENOENT); check the path");
  EXPECT_NE(message_of([&] { files.open_read(root); }, ErrorCode::kBadData).find("EISDIR"),
            std::string::npos);
  EXPECT_NE(message_of([&] { files.list(missing); }, ErrorCode::kBadData).find("ENOENT"), std::string::npos);
  EXPECT_NE(message_of([&] { files.create(join_path(missing, "x")); }, ErrorCode::kDevice).find("ENOENT"),
            std::string::npos);
  EXPECT_NE(message_of([&] { files.rename(missing, root); }, ErrorCode::kDevice).find("rename"),
            std::string::npos);
  write_synced_file(files, join_path(root, "file"), "12345");
  EXPECT_NE(message_of([&] { make_folders(files, join_path(root, "file/sub")); }, ErrorCode::kDevice)
                .find("ENOTDIR"),
            std::string::npos);
  EXPECT_NE(message_of([&] { files.remove_folder(root); }, ErrorCode::kDevice).find("remove folder"),
            std::string::npos);
  EXPECT_NE(message_of([&] { read_text_file(files, join_path(root, "file"), 4); }, ErrorCode::kBadData)
                .find("has 5 bytes, but may have at most 4"),
            std::string::npos);
  std::string longer(6, '\0');
  const auto file = files.open_read(join_path(root, "file"));
  EXPECT_NE(message_of([&] { read_exactly(*file, std::as_writable_bytes(std::span(longer)), 1, "a header"); },
                       ErrorCode::kBadData)
                .find("in the middle of a header: 6 bytes are expected at byte 1, but 4 exist"),
            std::string::npos);
}

TEST(File, ErrorsSayWhatAndWhatToDo) {
  const test::ScratchFolder real;
  exercise_errors(posix_file_system(), real.path());
  MemoryFileSystem memory;
  memory.make_folder("/root");
  exercise_errors(memory, "/root");
}

TEST(File, EveryErrnoHasAMessage) {
  for (const int number : {ENOSPC, EIO, EDQUOT, EROFS, EMFILE, 12345}) {
    const FileError error(FileOperation::kWrite, "x/y", number);
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    EXPECT_EQ(error.error_number(), number);
    EXPECT_TRUE(std::string_view(error.what()).starts_with("cannot write 'x/y': ")) << error.what();
    EXPECT_NE(std::string_view(error.what()).find("; "), std::string_view::npos) << error.what();
  }
}

TEST(File, Paths) {
  EXPECT_EQ(join_path("", "a"), "a");
  EXPECT_EQ(join_path("/", "a"), "/a");
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(parent_folder("a"), ".");
  EXPECT_EQ(parent_folder("/a"), "/");
  EXPECT_EQ(parent_folder("/a//b/"), "/a");
  EXPECT_EQ(parent_folder("a/b"), "a");
  EXPECT_EQ(file_name("a/b/"), "b");
  EXPECT_EQ(file_name("b"), "b");
}

TEST(File, LargeFilesGoInChunks) {
  MemoryFileSystem files;
  std::string large(3 * kFileChunkBytes + 17, 'x');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i % 251);
  write_synced_file(files, "/large", large);
  EXPECT_EQ(copy_synced_file(files, "/large", "/copy").hash, hash128(large));
  EXPECT_EQ(read_text_file(files, "/copy", 1 << 30), large);
  write_synced_file(files, "/exact", std::string(2 * kFileChunkBytes, 'x'));
  EXPECT_EQ(hash_file(files, "/exact").size_bytes, 2 * kFileChunkBytes);
  EXPECT_EQ(copy_synced_file(files, "/exact", "/copy").size_bytes, 2 * kFileChunkBytes);
}

TEST(MemoryFileSystem, OnlyWhatWasSyncedSurvives) {
  MemoryFileSystem files;
  files.make_folder("/d");
  files.sync_folder("/");
  const auto file = files.create("/d/f");
  file->write(bytes_of("1234"));
  file->sync();
  file->write(bytes_of("5678"));

  const auto lost = files.clone();
  lost->crash(AfterCrash::kLoseUnsynced);
  EXPECT_TRUE(lost->status("/d"));
  EXPECT_FALSE(lost->status("/d/f")) << "the name was never synced";

  files.sync_folder("/d");
  for (const auto& [policy, text] : {std::pair{AfterCrash::kKeepAll, "12345678"},
                                     {AfterCrash::kLoseUnsynced, "1234"},
                                     {AfterCrash::kKeepNamesOnly, "1234"},
                                     {AfterCrash::kTornData, "123456"}}) {
    const auto after = files.clone();
    after->crash(policy);
    EXPECT_EQ(read_text_file(*after, "/d/f", 100), text);
  }
  // The folder is not synced after the file is renamed, so after a crash the file can have its old name.
  files.rename("/d/f", "/d/g");
  const auto undone = files.clone();
  undone->crash(AfterCrash::kLoseUnsynced);
  EXPECT_TRUE(undone->status("/d/f"));
  EXPECT_FALSE(undone->status("/d/g"));
}

// Simulates a crash of each kind at each call of replace_file(). The file must then have either the old or the new content.
TEST(File, ReplaceIsAtomic) {
  int64_t num_calls = 1;
  for (int64_t call = 0; call < num_calls; ++call) {
    MemoryFileSystem disk;
    write_synced_file(disk, "/state", "old");
    disk.sync_folder("/");
    FaultyFileSystem files(disk);
    files.lose_power_at(call);
    try {
      replace_file(files, "/state", "new content");
      break;
    } catch (const PowerLoss&) {
    }
    num_calls = call + 2;
    for (const AfterCrash policy : kAllCrashes) {
      const auto after = disk.clone();
      after->crash(policy);
      const std::string text = read_text_file(*after, "/state", 100);
      EXPECT_TRUE(text == "old" || text == "new content") << "call " << call << ": " << text;
    }
  }
  EXPECT_EQ(num_calls, 7) << "create, write, sync, close, rename, sync folder";
}

// A lock can have one holder at a time, also within a process. Unlocking must not remove the file that is locked.
TEST(File, ALockHasOneHolder) {
  const std::string path = ::testing::TempDir() + "plimsoll_lock_test";
  MemoryFileSystem memory;
  FileSystem* const systems[] = {&posix_file_system(), &memory};
  for (FileSystem* files : systems) {
    const std::string name = files == &memory ? "/lock" : path;
    auto lock = files->try_lock(name);
    ASSERT_TRUE(lock);
    EXPECT_FALSE(files->try_lock(name));
    lock.reset();
    EXPECT_TRUE(files->status(name));
    EXPECT_TRUE(files->try_lock(name));
    files->remove_file(name);
  }
}

// If a write of replace_file() fails, the old content must remain, and no temporary file may be left.
TEST(File, ReplaceThatFailsLeavesTheOldFileAlone) {
  for (int64_t call = 0; call < 5; ++call) {
    MemoryFileSystem disk;
    write_synced_file(disk, "/state", "old");
    FaultyFileSystem files(disk);
    files.fail_at(call, ENOSPC);
    message_of([&] { replace_file(files, "/state", "new content"); }, ErrorCode::kDevice);
    EXPECT_EQ(read_text_file(disk, "/state", 100), "old") << call;
    EXPECT_EQ(disk.list("/").size(), 1u) << call;
  }
}

TEST(FaultyFileSystem, FailsAsToldAndRecords) {
  MemoryFileSystem disk;
  FaultyFileSystem files(disk);
  files.fail_at(1, ENOSPC);
  EXPECT_EQ(message_of([&] { write_synced_file(files, "/f", "12345678"); }, ErrorCode::kDevice),
            "cannot write '/f': No space left on device (ENOSPC); free space on that disk or choose a folder "
            "on another one");
  EXPECT_EQ(disk.status("/f")->size_bytes, 4) << "a full disk takes a part";
  EXPECT_EQ(files.trace(), (std::vector<std::string>{"create /f", "write /f 8"}));
  files.fail_reads_of("/f", EIO);
  EXPECT_NE(message_of([&] { read_text_file(files, "/f", 100); }, ErrorCode::kDevice).find("EIO"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll
