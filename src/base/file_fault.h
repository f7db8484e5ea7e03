// A disk for tests: a file system in memory that guarantees only what POSIX guarantees after a
// crash, and a wrapper that can make any call fail or simulate a power failure at it.
//
// Not linked into the product. Not thread-safe, except the scratch files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"

namespace plimsoll {

// The states in which a power failure can leave the simulated disk. POSIX permits each of these, and mixtures of them.
enum class AfterCrash : uint8_t {
  kKeepAll,       // all calls took effect, as if only the process had been killed
  kLoseUnsynced,  // names and bytes that were not synced are lost
  // all names remain, but bytes that were not synced are lost, as with a journal that covers metadata only
  kKeepNamesOnly,
  kTornData,  // all names remain, and half of the bytes that were not synced
  // in the innermost folders, names that were not synced remain; in the parents of these folders, such names are lost
  kInnerFirst,
};

inline constexpr AfterCrash kAllCrashes[] = {AfterCrash::kKeepAll, AfterCrash::kLoseUnsynced,
                                             AfterCrash::kKeepNamesOnly, AfterCrash::kTornData,
                                             AfterCrash::kInnerFirst};

// A file system in memory that tracks which bytes and names are durable. It starts with an empty durable
// folder "/". Paths without a leading '/' are relative to that folder. ".", ".." and symbolic links work as
// in POSIX.
class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  // Simulates a power failure at this moment: reduces the content to what `policy` lets survive, which is durable afterwards.
  // Files that are open must not be used after this call.
  void crash(AfterCrash policy);
  // Returns an independent copy of this file system, without open files and locks.
  std::unique_ptr<MemoryFileSystem> clone() const;
  // Flips one bit, as a failing disk might do.
  void damage(const std::string& path, int64_t byte);

  std::unique_ptr<File> open_read(const std::string& path) override;
  std::unique_ptr<File> create(const std::string& path) override;
  std::unique_ptr<File> open_append(const std::string& path) override;
  std::unique_ptr<File> open_write(const std::string& path) override;
  std::optional<FileStatus> status(const std::string& path) override;
  std::vector<FolderEntry> list(const std::string& folder) override;
  void make_folder(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void sync_folder(const std::string& path) override;
  void remove_file(const std::string& path) override;
  void remove_folder(const std::string& path) override;
  void make_link(const std::string& target, const std::string& path) override;
  std::optional<std::string> read_link(const std::string& path) override;
  // Creates a scratch file with is_direct() true, which refuses transfers that are not aligned to blocks, as a real one does.
  std::unique_ptr<ScratchFile> create_scratch(const std::string& path, int64_t bytes) override;
  std::unique_ptr<FileLock> try_lock(const std::string& path) override;
  FolderSpace space_of(const std::string& folder) override;
  // Sets what space_of() returns for every folder: the free space, and if the folder is writable.
  void set_space(FolderSpace space) { space_ = space; }

  struct Node;

 private:
  struct Place;
  Place locate(const std::string& path, FileOperation operation, bool follow_last, int depth = 0) const;
  std::shared_ptr<Node> root_;
  // The paths of the locked files. A clone of this file system starts without locks.
  std::shared_ptr<std::set<std::string>> locked_ = std::make_shared<std::set<std::string>>();
  FolderSpace space_{.free_bytes = int64_t{1} << 40, .is_writable = true};
};

// Thrown at a simulated power failure. It is neither an Error nor a std::exception, so no handler can mistake
// it for a failure that the program survives. Every later call on the same FaultyFileSystem throws it again.
struct PowerLoss {};

// Forwards every call to another file system, counts and records the calls, and injects the configured
// failure.
class FaultyFileSystem final : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem& inner) : inner_(inner) {}

  // Makes call number `call` fail with this errno. Calls that change or sync something are counted from 0. A
  // failing write first writes half of its bytes, as a full disk does.
  void fail_at(int64_t call, int error_number) { fail_at_ = call, error_number_ = error_number; }
  // Makes call number `call` and all later calls that change or sync something fail with this errno, as on a disk
  // that stays full.
  void fail_from(int64_t call, int error_number) { fail_at(call, error_number), persistent_ = true; }
  // Simulates a power failure just before call number `call` takes effect (a write first writes half of its
  // bytes).
  void lose_power_at(int64_t call) { power_at_ = call; }

  // Makes every read of the file at this path fail with this errno.
  void fail_reads_of(const std::string& path, int error_number) { bad_reads_[path] = error_number; }

  // Returns the calls so far that changed or synced something, as "write tmp-x/model.safetensors 128".
  const std::vector<std::string>& trace() const { return trace_; }
  int64_t num_calls() const { return static_cast<int64_t>(trace_.size()); }

  std::unique_ptr<File> open_read(const std::string& path) override;
  std::unique_ptr<File> create(const std::string& path) override;
  std::unique_ptr<File> open_append(const std::string& path) override;
  std::unique_ptr<File> open_write(const std::string& path) override;
  std::optional<FileStatus> status(const std::string& path) override;
  std::vector<FolderEntry> list(const std::string& folder) override;
  void make_folder(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void sync_folder(const std::string& path) override;
  void remove_file(const std::string& path) override;
  void remove_folder(const std::string& path) override;
  void make_link(const std::string& target, const std::string& path) override;
  std::optional<std::string> read_link(const std::string& path) override;
  std::unique_ptr<ScratchFile> create_scratch(const std::string& path, int64_t bytes) override;
  std::unique_ptr<FileLock> try_lock(const std::string& path) override;
  FolderSpace space_of(const std::string& folder) override;

  // Records a call of the file system, and throws if the test has set this call to fail. Opened files call this function before each
  // of their operations. Before it throws, it runs `partly`, which does the part of the operation that a failing disk would complete.
  void before(FileOperation operation, const std::string& path, const std::string& detail,
              const std::function<void()>& partly = {});
  void check_power() const;
  void check_read(const std::string& path) const;

 private:
  FileSystem& inner_;
  int64_t fail_at_ = -1;
  int error_number_ = 0;
  bool persistent_ = false;
  int64_t power_at_ = -1;
  bool off_ = false;
  std::map<std::string, int> bad_reads_;
  std::vector<std::string> trace_;
};

}  // namespace plimsoll
