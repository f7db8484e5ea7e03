#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/scratch_file.h"

namespace plimsoll {
namespace {

[[noreturn]] void fail(FileOperation operation, const std::string& path) {
  const int error_number = errno;
  throw FileError(operation, path, error_number);
}

// Linux transfers at most 0x7ffff000 bytes per call. This limit is smaller, so that a signal can end a long transfer between two calls.
constexpr size_t kMaxBytesPerCall = size_t{1} << 30;

class PosixMapping final : public FileMapping {
 public:
  explicit PosixMapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  PosixMapping(const PosixMapping&) = delete;
  PosixMapping& operator=(const PosixMapping&) = delete;
  ~PosixMapping() override { ::munmap(bytes_.data(), bytes_.size()); }

  std::span<const std::byte> bytes() const override { return bytes_; }
  // The data is not lost: for a shared mapping of a file, MADV_DONTNEED only unmaps the pages, and the next access maps them again.
  void release_pages() const override { ::madvise(bytes_.data(), bytes_.size(), MADV_DONTNEED); }

 private:
  std::span<std::byte> bytes_;
};

class PosixFile final : public File {
 public:
  PosixFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;
  ~PosixFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  int64_t pread(std::span<std::byte> destination, int64_t offset) const override {
    size_t done = 0;
    while (done < destination.size()) {
      const size_t wanted = std::min(destination.size() - done, kMaxBytesPerCall);
      const ssize_t got =
          ::pread(descriptor_, destination.data() + done, wanted, offset + narrow<off_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(FileOperation::kRead, path_);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return narrow<int64_t>(done);
  }

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t put = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxBytesPerCall));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail(FileOperation::kWrite, path_);
      bytes = bytes.subspan(static_cast<size_t>(put));
    }
  }

  void write_at(std::span<const std::byte> bytes, int64_t offset) override {
    while (!bytes.empty()) {
      const ssize_t put = ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMaxBytesPerCall),
                                   narrow<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail(FileOperation::kWrite, path_);
      bytes = bytes.subspan(static_cast<size_t>(put));
      offset += put;
    }
  }

  void resize(int64_t bytes) override {
    while (::ftruncate(descriptor_, narrow<off_t>(bytes)) != 0) {
      if (errno != EINTR) fail(FileOperation::kWrite, path_);
    }
  }

  void start_sync([[maybe_unused]] int64_t offset, [[maybe_unused]] int64_t bytes) override {
#ifdef SYNC_FILE_RANGE_WRITE
    // an error is ignored here, because the next sync() reports it
    ::sync_file_range(descriptor_, offset, bytes, SYNC_FILE_RANGE_WRITE);
#endif
  }

  void sync() override {
    while (::fsync(descriptor_) != 0) {
      if (errno != EINTR) fail(FileOperation::kSync, path_);
    }
  }

  void close() override {
    const int descriptor = std::exchange(descriptor_, -1);
    // Linux has closed the descriptor even if close returned EINTR. Closing it again could close another
    // thread's file.
    if (descriptor >= 0 && ::close(descriptor) != 0 && errno != EINTR) fail(FileOperation::kClose, path_);
  }

  int64_t size_bytes() const override {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail(FileOperation::kStatus, path_);
    return status.st_size;
  }

  const std::string& path() const override {
    return path_;
  }

  std::shared_ptr<const FileMapping> map() const override {
    const auto size = static_cast<size_t>(size_bytes());
    if (size == 0) return nullptr;
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (address == MAP_FAILED) return nullptr;
    return std::make_shared<const PosixMapping>(std::span(static_cast<std::byte*>(address), size));
  }

 private:
  int descriptor_;
  std::string path_;
};

// A lock of flock(2) on an open file. Closing the descriptor of the file releases the lock.
class PosixLock final : public FileLock {
 public:
  explicit PosixLock(int descriptor) : descriptor_(descriptor) {}
  PosixLock(const PosixLock&) = delete;
  PosixLock& operator=(const PosixLock&) = delete;
  ~PosixLock() override { ::close(descriptor_); }

 private:
  int descriptor_;
};

FileKind kind_of_mode(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::kFile;
  if (S_ISDIR(mode)) return FileKind::kFolder;
  if (S_ISLNK(mode)) return FileKind::kLink;
  return FileKind::kOther;
}

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<File> open_read(const std::string& path) override {
    return open(path, O_RDONLY, FileOperation::kOpenRead);
  }
  std::unique_ptr<File> create(const std::string& path) override {
    return open(path, O_WRONLY | O_CREAT | O_TRUNC, FileOperation::kCreate);
  }
  std::unique_ptr<File> open_append(const std::string& path) override {
    return open(path, O_WRONLY | O_CREAT | O_APPEND, FileOperation::kOpenAppend);
  }
  std::unique_ptr<File> open_write(const std::string& path) override {
    return open(path, O_WRONLY, FileOperation::kOpenWrite);
  }

  std::optional<FileStatus> status(const std::string& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      fail(FileOperation::kStatus, path);
    }
    return FileStatus{kind_of_mode(status.st_mode), status.st_size};
  }

  std::vector<FolderEntry> list(const std::string& folder) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), &::closedir);
    if (!stream) fail(FileOperation::kList, folder);
    std::vector<FolderEntry> entries;
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr) {
        if (errno != 0) fail(FileOperation::kList, folder);
        break;
      }
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat status {};
      if (::fstatat(::dirfd(stream.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) continue;  // another process removed the entry after the folder was listed
        fail(FileOperation::kList, join_path(folder, name));
      }
      entries.push_back({name, kind_of_mode(status.st_mode)});
    }
    std::ranges::sort(entries, {}, &FolderEntry::name);
    return entries;
  }

  void make_folder(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return;
    const int error_number = errno;
    const auto found = error_number == EEXIST ? status(path) : std::nullopt;
    if (!found || found->kind != FileKind::kFolder) {
      throw FileError(FileOperation::kMakeFolder, path, error_number);
    }
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail(FileOperation::kRename, from + "' to '" + to);
  }

  void sync_folder(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail(FileOperation::kSyncFolder, path);
    PosixFile folder(descriptor, path);
    // Some network file systems do not support fsync() for folders (EINVAL). Names in their folders are durable without it.
    if (::fsync(descriptor) != 0 && errno != EINVAL) fail(FileOperation::kSyncFolder, path);
  }

  void remove_file(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) fail(FileOperation::kRemoveFile, path);
  }
  void remove_folder(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) fail(FileOperation::kRemoveFolder, path);
  }
  void make_link(const std::string& target, const std::string& path) override {
    if (::symlink(target.c_str(), path.c_str()) != 0) fail(FileOperation::kMakeLink, path);
  }

  std::unique_ptr<ScratchFile> create_scratch(const std::string& path, int64_t bytes) override {
    return create_posix_scratch(path, bytes);
  }

  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    int descriptor = -1;
    do {
      descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) fail(FileOperation::kLock, path);
    auto lock = std::make_unique<PosixLock>(descriptor);
    int result = 0;
    do {
      result = ::flock(descriptor, LOCK_EX | LOCK_NB);
    } while (result != 0 && errno == EINTR);
    if (result == 0 || errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK) return lock;
    if (errno == EWOULDBLOCK) return nullptr;
    fail(FileOperation::kLock, path);
  }

  FolderSpace space_of(const std::string& folder) override {
    struct statvfs status {};
    while (::statvfs(folder.c_str(), &status) != 0) {
      if (errno != EINTR) fail(FileOperation::kStatus, folder);
    }
    return {.free_bytes = narrow<int64_t>(status.f_bavail) * narrow<int64_t>(status.f_frsize),
            .is_writable = ::access(folder.c_str(), W_OK | X_OK) == 0};
  }

  std::optional<std::string> read_link(const std::string& path) override {
    std::string target(4096, '\0');
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    if (length < 0) {
      if (errno == ENOENT || errno == EINVAL || errno == ENOTDIR) return std::nullopt;
      fail(FileOperation::kReadLink, path);
    }
    target.resize(static_cast<size_t>(length));
    return target;
  }

 private:
  static std::unique_ptr<File> open(const std::string& path, int flags, FileOperation operation) {
    int descriptor = -1;
    do {
      descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) fail(operation, path);
    auto file = std::make_unique<PosixFile>(descriptor, path);
    // The system permits opening a folder like a file, and only the first read fails, with a misleading message. Therefore report
    // here that the path is a folder.
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) fail(operation, path);
    if (S_ISDIR(status.st_mode)) throw FileError(operation, path, EISDIR);
    return file;
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  return files;
}

}  // namespace plimsoll
