// A disk for tests: files in memory with POSIX's durability and no more, and a wrapper that fails or stops at
// any call.
//
// Not linked into the product. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace plimsoll {

// What is left on the disk after the power went. POSIX allows each of these, and everything between.
enum class AfterCrash : uint8_t {
  kKeepAll,        // all calls reached the disk: what a killed process leaves
  kLoseUnsynced,   // names and bytes that were not synced are gone
  kKeepNamesOnly,  // names are there, bytes that were not synced are gone (a journal of metadata only)
  kTornData,       // names are there, half of the bytes that were not synced are
  kInnerFirst,  // changes in folders without folders are there, unsynced names in the folders above them are
                // gone
};

inline constexpr AfterCrash kAllCrashes[] = {AfterCrash::kKeepAll, AfterCrash::kLoseUnsynced,
                                             AfterCrash::kKeepNamesOnly, AfterCrash::kTornData,
                                             AfterCrash::kInnerFirst};

// A file system in memory that knows which bytes and which names are durable. Starts with an empty durable
// folder "/". Paths that do not begin with '/' count from there; "." and ".." as in POSIX, symbolic links
// too.
class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  // The state after a power failure now; what is left is durable. Open files must not be used any more.
  void crash(AfterCrash policy);
  // An independent copy of everything, open files excluded.
  std::unique_ptr<MemoryFileSystem> clone() const;
  // Flips one bit, as a failing disk does.
  void damage(const std::string& path, int64_t byte);

  std::unique_ptr<File> open_read(const std::string& path) override;
  std::unique_ptr<File> create(const std::string& path) override;
  std::unique_ptr<File> open_append(const std::string& path) override;
  std::optional<FileStatus> status(const std::string& path) override;
  std::vector<FolderEntry> list(const std::string& folder) override;
  void make_folder(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void sync_folder(const std::string& path) override;
  void remove_file(const std::string& path) override;
  void remove_folder(const std::string& path) override;
  void make_link(const std::string& target, const std::string& path) override;
  std::optional<std::string> read_link(const std::string& path) override;

  struct Node;

 private:
  struct Place;
  Place locate(const std::string& path, FileOperation operation, bool follow_last, int depth = 0) const;
  std::shared_ptr<Node> root_;
};

// Thrown where the power goes. Not an Error and not a std::exception, so that no handler mistakes it for a
// failure that the program lives to handle; every later call on the same FaultyFileSystem throws it again.
struct PowerLoss {};

// Passes every call on to another file system, counts and records them, and fails one as told.
class FaultyFileSystem final : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem& inner) : inner_(inner) {}

  // Call number `call` (from 0, over all calls that change or sync something) fails with this errno; a write
  // puts half of its bytes first, as a disk that runs full does.
  void fail_at(int64_t call, int error_number) { fail_at_ = call, error_number_ = error_number; }
  // From then on all such calls fail with it: a disk that stays full.
  void fail_from(int64_t call, int error_number) { fail_at(call, error_number), persistent_ = true; }
  // The power goes just before call number `call` has an effect (a write puts half of its bytes first).
  void lose_power_at(int64_t call) { power_at_ = call; }

  // Every read of a file at this path fails with this errno.
  void fail_reads_of(const std::string& path, int error_number) { bad_reads_[path] = error_number; }

  // Calls so far that change or sync something, as "write tmp-x/model.safetensors 128".
  const std::vector<std::string>& trace() const { return trace_; }
  int64_t num_calls() const { return static_cast<int64_t>(trace_.size()); }

  std::unique_ptr<File> open_read(const std::string& path) override;
  std::unique_ptr<File> create(const std::string& path) override;
  std::unique_ptr<File> open_append(const std::string& path) override;
  std::optional<FileStatus> status(const std::string& path) override;
  std::vector<FolderEntry> list(const std::string& folder) override;
  void make_folder(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void sync_folder(const std::string& path) override;
  void remove_file(const std::string& path) override;
  void remove_folder(const std::string& path) override;
  void make_link(const std::string& target, const std::string& path) override;
  std::optional<std::string> read_link(const std::string& path) override;

  // For the files it opens: records the call, then throws if this is the one to fail. `partly` runs before it
  // throws.
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
