#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace plimsoll {
namespace {

// A file on a rank that only reads files: everything that is written to it is discarded.
class DiscardedFile final : public File {
 public:
  explicit DiscardedFile(std::string path) : path_(std::move(path)) {}
  int64_t pread(std::span<std::byte>, int64_t) const override { return 0; }
  void write(std::span<const std::byte> bytes) override { size_bytes_ += std::ssize(bytes); }
  void write_at(std::span<const std::byte> bytes, int64_t offset) override {
    size_bytes_ = std::max(size_bytes_, offset + std::ssize(bytes));
  }
  void resize(int64_t bytes) override { size_bytes_ = bytes; }
  void sync() override {}
  void close() override {}
  int64_t size_bytes() const override { return size_bytes_; }
  const std::string& path() const override { return path_; }

 private:
  std::string path_;
  int64_t size_bytes_ = 0;
};

class ReadingFiles final : public FileSystem {
 public:
  std::unique_ptr<File> open_read(const std::string& path) override {
    return posix_file_system().open_read(path);
  }
  std::unique_ptr<File> create(const std::string& path) override {
    return std::make_unique<DiscardedFile>(path);
  }
  std::unique_ptr<File> open_append(const std::string& path) override {
    return std::make_unique<DiscardedFile>(path);
  }
  std::unique_ptr<File> open_write(const std::string& path) override {
    return std::make_unique<DiscardedFile>(path);
  }
  std::optional<FileStatus> status(const std::string& path) override {
    return posix_file_system().status(path);
  }
  std::vector<FolderEntry> list(const std::string& folder) override {
    // Another rank writes the files of the run, possibly on another machine, so a folder may be missing here. A missing folder
    // counts as empty.
    if (!status(folder)) return {};
    return posix_file_system().list(folder);
  }
  void make_folder(const std::string&) override {}
  void rename(const std::string&, const std::string&) override {}
  void sync_folder(const std::string&) override {}
  void remove_file(const std::string&) override {}
  void remove_folder(const std::string&) override {}
  void make_link(const std::string&, const std::string&) override {}
  std::optional<std::string> read_link(const std::string& path) override {
    return posix_file_system().read_link(path);
  }
  // Creates a real scratch file, because each rank writes and reads its own scratch files.
  std::unique_ptr<ScratchFile> create_scratch(const std::string& path, int64_t bytes) override {
    return posix_file_system().create_scratch(path, bytes);
  }
  // Returns a lock that has no effect, because the rank that writes the files of the run holds the real lock.
  std::unique_ptr<FileLock> try_lock(const std::string&) override { return std::make_unique<FileLock>(); }
  FolderSpace space_of(const std::string& folder) override { return posix_file_system().space_of(folder); }
};

}  // namespace

FileSystem& reading_file_system() {
  static ReadingFiles files;
  return files;
}

}  // namespace plimsoll
