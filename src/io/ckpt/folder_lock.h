// Locks an output folder for one run. Two runs that write into one folder would remove each other's
// checkpoints.
//
// The kernel holds the lock on FOLDER/.plimsoll.lock, so it is released when the process ends for any reason.
// The file remains and contains the number of the last process that held the lock. If a file system does not
// support such locks (some network file systems do not), nothing is locked and no run is refused. Not
// thread-safe; the object owns the lock.
#pragma once

#include <string>

namespace plimsoll {

inline constexpr const char* kLockFile = ".plimsoll.lock";

class FolderLock {
 public:
  // Locks the folder. Requires: the folder exists. Errors: kUsage, with the file and the process that holds
  // the lock; FileError.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace plimsoll
