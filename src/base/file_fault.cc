#include "base/file_fault.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

namespace plimsoll {
namespace {

class FaultyFile final : public File {
 public:
  FaultyFile(FaultyFileSystem& files, std::unique_ptr<File> inner)
      : files_(files), inner_(std::move(inner)) {}
  int64_t pread(std::span<std::byte> destination, int64_t offset) const override {
    files_.check_power();
    files_.check_read(path());
    return inner_->pread(destination, offset);
  }
  void write(std::span<const std::byte> bytes) override {
    files_.before(FileOperation::kWrite, path(), fmt::format(" {}", bytes.size()),
                  [&] { inner_->write(bytes.first(bytes.size() / 2)); });
    inner_->write(bytes);
  }
  void write_at(std::span<const std::byte> bytes, int64_t offset) override {
    files_.before(FileOperation::kWrite, path(), fmt::format(" {} at {}", bytes.size(), offset),
                  [&] { inner_->write_at(bytes.first(bytes.size() / 2), offset); });
    inner_->write_at(bytes, offset);
  }
  void resize(int64_t bytes) override {
    files_.before(FileOperation::kWrite, path(), fmt::format(" size {}", bytes));
    inner_->resize(bytes);
  }
  void sync() override {
    files_.before(FileOperation::kSync, path(), "");
    inner_->sync();
  }
  void close() override {
    files_.before(FileOperation::kClose, path(), "");
    inner_->close();
  }
  int64_t size_bytes() const override {
    files_.check_power();
    return inner_->size_bytes();
  }
  const std::string& path() const override { return inner_->path(); }

 private:
  FaultyFileSystem& files_;
  std::unique_ptr<File> inner_;
};

// A scratch file that simulates failures. Several threads may use it at the same time, but FaultyFileSystem, which
// counts the calls and fails some of them, is not thread-safe. A mutex therefore protects the calls of FaultyFileSystem.
class FaultyScratchFile final : public ScratchFile {
 public:
  FaultyScratchFile(FaultyFileSystem& files, std::unique_ptr<ScratchFile> inner)
      : files_(files), inner_(std::move(inner)) {}
  void read(std::span<std::byte> destination, int64_t offset) const override {
    {
      const std::lock_guard lock(mutex_);
      files_.check_power();
      files_.check_read(path());
    }
    inner_->read(destination, offset);
  }
  void write(std::span<const std::byte> bytes, int64_t offset) override {
    {
      const std::lock_guard lock(mutex_);
      // A full disk accepts whole blocks only, so the half that is written is rounded down to whole blocks.
      const size_t half = bytes.size() / 2 / kBlockBytes * kBlockBytes;
      files_.before(FileOperation::kWrite, path(), fmt::format(" {} at {}", bytes.size(), offset),
                    [&] { inner_->write(bytes.first(half), offset); });
    }
    inner_->write(bytes, offset);
  }
  bool is_direct() const override { return inner_->is_direct(); }
  const std::string& path() const override { return inner_->path(); }

 private:
  FaultyFileSystem& files_;
  std::unique_ptr<ScratchFile> inner_;
  mutable std::mutex mutex_;
};

}  // namespace

void FaultyFileSystem::check_power() const {
  if (off_) throw PowerLoss{};
}

void FaultyFileSystem::check_read(const std::string& path) const {
  const auto found = bad_reads_.find(path);
  if (found != bad_reads_.end()) throw FileError(FileOperation::kRead, path, found->second);
}

void FaultyFileSystem::before(FileOperation operation, const std::string& path, const std::string& detail,
                              const std::function<void()>& partly) {
  check_power();
  const int64_t call = num_calls();
  trace_.push_back(fmt::format("{} {}{}", file_operation_name(operation), path, detail));
  const bool power_goes = call == power_at_;
  const bool fails = fail_at_ >= 0 && (persistent_ ? call >= fail_at_ : call == fail_at_);
  if (!power_goes && !fails) return;
  // A disk that stays full fails all calls except those that remove files.
  const bool removes = operation == FileOperation::kRemoveFile || operation == FileOperation::kRemoveFolder;
  if (!power_goes && persistent_ && removes) return;
  if (partly) partly();
  if (power_goes) {
    off_ = true;
    throw PowerLoss{};
  }
  throw FileError(operation, path, error_number_);
}

std::unique_ptr<File> FaultyFileSystem::open_read(const std::string& path) {
  check_power();
  return std::make_unique<FaultyFile>(*this, inner_.open_read(path));
}
std::unique_ptr<File> FaultyFileSystem::create(const std::string& path) {
  before(FileOperation::kCreate, path, "");
  return std::make_unique<FaultyFile>(*this, inner_.create(path));
}
std::unique_ptr<File> FaultyFileSystem::open_append(const std::string& path) {
  before(FileOperation::kOpenAppend, path, "");
  return std::make_unique<FaultyFile>(*this, inner_.open_append(path));
}
std::unique_ptr<File> FaultyFileSystem::open_write(const std::string& path) {
  before(FileOperation::kOpenWrite, path, "");
  return std::make_unique<FaultyFile>(*this, inner_.open_write(path));
}
std::optional<FileStatus> FaultyFileSystem::status(const std::string& path) {
  check_power();
  return inner_.status(path);
}
std::vector<FolderEntry> FaultyFileSystem::list(const std::string& folder) {
  check_power();
  return inner_.list(folder);
}
void FaultyFileSystem::make_folder(const std::string& path) {
  before(FileOperation::kMakeFolder, path, "");
  inner_.make_folder(path);
}
void FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  before(FileOperation::kRename, from, " " + to);
  inner_.rename(from, to);
}
void FaultyFileSystem::sync_folder(const std::string& path) {
  before(FileOperation::kSyncFolder, path, "");
  inner_.sync_folder(path);
}
void FaultyFileSystem::remove_file(const std::string& path) {
  before(FileOperation::kRemoveFile, path, "");
  inner_.remove_file(path);
}
void FaultyFileSystem::remove_folder(const std::string& path) {
  before(FileOperation::kRemoveFolder, path, "");
  inner_.remove_folder(path);
}
void FaultyFileSystem::make_link(const std::string& target, const std::string& path) {
  before(FileOperation::kMakeLink, path, " " + target);
  inner_.make_link(target, path);
}
std::optional<std::string> FaultyFileSystem::read_link(const std::string& path) {
  check_power();
  return inner_.read_link(path);
}

std::unique_ptr<ScratchFile> FaultyFileSystem::create_scratch(const std::string& path, int64_t bytes) {
  before(FileOperation::kReserve, path, fmt::format(" {}", bytes));
  return std::make_unique<FaultyScratchFile>(*this, inner_.create_scratch(path, bytes));
}
std::unique_ptr<FileLock> FaultyFileSystem::try_lock(const std::string& path) {
  before(FileOperation::kLock, path, "");
  return inner_.try_lock(path);
}
FolderSpace FaultyFileSystem::space_of(const std::string& folder) {
  check_power();
  return inner_.space_of(folder);
}

}  // namespace plimsoll
