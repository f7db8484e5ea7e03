#include "io/ckpt/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/file.h"

namespace plimsoll {
namespace {

// Returns a text such as "process 123" for error messages, or a general text if the lock file contains no process number.
std::string holder(int descriptor) {
  char text[32];
  const ssize_t length = pread(descriptor, text, sizeof text, 0);
  std::string digits(text, length > 0 ? static_cast<size_t>(length) : 0);
  digits.resize(std::min(digits.find_first_not_of("0123456789"), digits.size()));
  return digits.empty() ? "another process" : "process " + digits;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = join_path(folder, kLockFile);
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw FileError(FileOperation::kCreate, path, errno);
  try {
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        throw_error(
            ErrorCode::kUsage,
            "{}: {} is already training into this folder. Wait until it ends, or give another --output_dir",
            path, holder(descriptor_));
      }
      return;
    }
    const std::string text = std::to_string(getpid()) + "\n";
    if (ftruncate(descriptor_, 0) != 0 ||
        pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
      throw FileError(FileOperation::kWrite, path, errno);
    }
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

FolderLock::~FolderLock() {
  close(descriptor_);
}

}  // namespace plimsoll
