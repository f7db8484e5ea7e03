// Holds an output folder for one run: two that wrote into one folder would take each other's checkpoints
// away.
//
// It is a lock of the kernel's on FOLDER/.plimsoll.lock, so a process that dies, however it dies, holds
// nothing. The file stays and says who held the folder last. Where a file system knows no such locks (some
// network file systems), nothing is held and nobody is refused. Not thread-safe; the object owns the lock.
#pragma once

#include <string>

namespace plimsoll {

inline constexpr const char* kLockFile = ".plimsoll.lock";

class FolderLock {
 public:
  // Requires: the folder exists. Errors: kUsage, naming the file and the process that holds it; FileError.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace plimsoll
