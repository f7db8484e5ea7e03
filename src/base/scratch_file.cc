#include "base/scratch_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace plimsoll {
namespace {

// The largest number of bytes per system call. It is a multiple of kBlockBytes, so the next call also starts at an aligned offset.
constexpr size_t kMostBytesPerTransfer = size_t{1} << 30;

class PosixScratchFile final : public ScratchFile {
 public:
  explicit PosixScratchFile(std::string path) : path_(std::move(path)) {
    do {
      descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    } while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) throw FileError(FileOperation::kCreate, path_, errno);
  }
  PosixScratchFile(const PosixScratchFile&) = delete;
  PosixScratchFile& operator=(const PosixScratchFile&) = delete;
  // Removes the file while it is still locked. After unlocking, the name could already belong to a file of another run.
  ~PosixScratchFile() override {
    if (is_locked_) ::unlink(path_.c_str());
    ::close(descriptor_);
  }

  void read(std::span<std::byte> destination, int64_t offset) const override {
    require_aligned(destination.data(), destination.size(), offset);
    transfer(destination, offset, FileOperation::kRead, [this](std::byte* data, size_t bytes, off_t at) {
      return ::pread(descriptor_, data, bytes, at);
    });
  }

  void write(std::span<const std::byte> bytes, int64_t offset) override {
    require_aligned(bytes.data(), bytes.size(), offset);
    transfer(bytes, offset, FileOperation::kWrite, [this](const std::byte* data, size_t count, off_t at) {
      return ::pwrite(descriptor_, data, count, at);
    });
  }

  bool is_direct() const override { return is_direct_; }
  const std::string& path() const override { return path_; }

  // Locks the opened file. Returns false if its path no longer refers to this file, because the previous owner removed the
  // file after this process opened it. Errors: kDevice if another process has the lock.
  bool lock() {
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EINTR) throw FileError(FileOperation::kLock, path_, errno);
    }
    struct stat open {};
    struct stat named {};
    if (::fstat(descriptor_, &open) != 0) throw FileError(FileOperation::kStatus, path_, errno);
    is_locked_ =
        ::stat(path_.c_str(), &named) == 0 && open.st_ino == named.st_ino && open.st_dev == named.st_dev;
    return is_locked_;
  }

  // Removes the content of the file, and extends it with zeros to its final size.
  void reserve(int64_t bytes) const {
    if (::ftruncate(descriptor_, 0) != 0) throw FileError(FileOperation::kReserve, path_, errno);
    int result = 0;
    do {
      result = ::fallocate(descriptor_, 0, 0, bytes);
    } while (result != 0 && errno == EINTR);
    if (result == 0) return;
    // A file system that cannot reserve space can still become full while the run writes.
    if (errno != EOPNOTSUPP && errno != ENOSYS) throw FileError(FileOperation::kReserve, path_, errno);
    if (::ftruncate(descriptor_, bytes) != 0) throw FileError(FileOperation::kReserve, path_, errno);
  }

  // Bypasses the cache of the kernel if the file system supports that for blocks of kBlockBytes.
  void make_direct() {
    const int flags = ::fcntl(descriptor_, F_GETFL);
    if (flags < 0 || ::fcntl(descriptor_, F_SETFL, flags | O_DIRECT) != 0) return;
    const std::unique_ptr<void, void (*)(void*)> block(std::aligned_alloc(kBlockBytes, kBlockBytes),
                                                       &std::free);
    is_direct_ = block != nullptr && ::pread(descriptor_, block.get(), kBlockBytes, 0) == kBlockBytes;
    if (!is_direct_ && ::fcntl(descriptor_, F_SETFL, flags) != 0)
      throw FileError(FileOperation::kStatus, path_, errno);
  }

 private:
  void require_aligned(const std::byte* data, size_t bytes, int64_t offset) const {
    if (!is_direct_) return;
    PLIMSOLL_CHECK(reinterpret_cast<uintptr_t>(data) % kBlockBytes == 0 && bytes % kBlockBytes == 0 &&
                       offset % kBlockBytes == 0,
                   "the size, the offset and the memory address must be multiples of {}, but {} bytes at "
                   "offset {} of '{}' are to be transferred at address {}",
                   kBlockBytes, bytes, offset, path_, static_cast<const void*>(data));
  }

  // Repeats `call`, a read or write at an offset, until all bytes are transferred. If a call transfers only a part, the next one
  // starts at the last complete block, because direct transfers must be aligned to blocks.
  template <typename Byte, typename Call>
  void transfer(std::span<Byte> bytes, int64_t offset, FileOperation operation, const Call& call) const {
    while (!bytes.empty()) {
      const ssize_t got =
          call(bytes.data(), std::min(bytes.size(), kMostBytesPerTransfer), narrow<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw FileError(operation, path_, errno);
      if (static_cast<size_t>(got) == bytes.size()) return;
      const auto done = is_direct_ ? got / kBlockBytes * kBlockBytes : narrow<int64_t>(got);
      if (done == 0) {
        throw_error(ErrorCode::kDevice,
                    "cannot {} '{}': the file ends before byte {}, because another program has shortened it; "
                    "start the run again and do not change the file",
                    file_operation_name(operation), path_, offset + std::ssize(bytes));
      }
      bytes = bytes.subspan(narrow<size_t>(done));
      offset += done;
    }
  }

  int descriptor_ = -1;
  std::string path_;
  bool is_locked_ = false;
  bool is_direct_ = false;
};

}  // namespace

std::unique_ptr<ScratchFile> create_posix_scratch(const std::string& path, int64_t bytes) {
  auto file = std::make_unique<PosixScratchFile>(path);
  while (!file->lock()) file = std::make_unique<PosixScratchFile>(path);
  file->reserve(bytes);
  file->make_direct();
  return file;
}

}  // namespace plimsoll
