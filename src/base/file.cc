#include "base/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/check.h"
#include "base/disguised_file.h"

namespace plimsoll {
namespace {

struct ErrnoText {
  int number;
  const char* name;
  const char* advice;
};

// The advice that error messages contain for failures which occur on real disks.
constexpr ErrnoText kErrnoTexts[] = {
    {ENOENT, "ENOENT", "check the path"},
    {ENOTDIR, "ENOTDIR", "the path leads through something that is not a folder; check the path"},
    {EISDIR, "EISDIR", "the path names a folder, but a file is expected; check the path"},
    {EEXIST, "EEXIST", "a file or folder with that name exists; move it away or choose another name"},
    {ENOTEMPTY, "ENOTEMPTY", "the folder is not empty; move it away"},
    {EACCES, "EACCES", "check the permissions of the file and of the folders above it"},
    {EPERM, "EPERM", "check the permissions of the file and of the folders above it"},
    {EROFS, "EROFS", "the file system is read-only; choose another folder"},
    {ENOSPC, "ENOSPC", "free space on that disk or choose a folder on another one"},
    {EDQUOT, "EDQUOT", "the quota is used up; free space or choose a folder on another disk"},
    {EFBIG, "EFBIG", "the file is larger than the file system or the limit (ulimit -f) allows"},
    {EIO, "EIO",
     "the disk or the connection to it failed; read the log of the system (dmesg) and use another disk"},
    {EMFILE, "EMFILE", "too many open files; raise the limit (ulimit -n)"},
    {ENFILE, "ENFILE", "too many open files on the whole machine"},
    {ENAMETOOLONG, "ENAMETOOLONG", "choose a shorter path"},
    {ELOOP, "ELOOP", "symbolic links lead in a circle; check the path"},
    {EXDEV, "EXDEV", "both names must be on one file system"},
    {ESTALE, "ESTALE", "the network file system lost the file; mount it again"},
    {EWOULDBLOCK, "EWOULDBLOCK",
     "another run has the file open; wait until that run ends or choose another folder"},
    {EOPNOTSUPP, "EOPNOTSUPP",
     "the file system does not support this operation; choose a folder on another one"},
};

std::string compose(FileOperation operation, const std::string& path, int error_number) {
  std::string name = fmt::format("errno {}", error_number);
  std::string advice = "check the path and the disk";
  for (const ErrnoText& text : kErrnoTexts) {
    if (text.number == error_number) {
      name = text.name;
      advice = text.advice;
    }
  }
  return fmt::format("cannot {} '{}': {} ({}); {}", file_operation_name(operation), path,
                     std::generic_category().message(error_number), name, advice);
}

// A missing or unreadable input is invalid user data. All other failures are faults of the machine.
ErrorCode classify(FileOperation operation, int error_number) {
  const bool reads = operation == FileOperation::kOpenRead || operation == FileOperation::kRead ||
                     operation == FileOperation::kStatus || operation == FileOperation::kList ||
                     operation == FileOperation::kReadLink;
  if (!reads) return ErrorCode::kDevice;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
      return ErrorCode::kBadData;
    default:
      return ErrorCode::kDevice;
  }
}

}  // namespace

std::string_view file_operation_name(FileOperation operation) {
  switch (operation) {
    case FileOperation::kOpenRead:
      return "open";
    case FileOperation::kCreate:
      return "create";
    case FileOperation::kOpenAppend:
      return "append to";
    case FileOperation::kOpenWrite:
      return "open for writing";
    case FileOperation::kRead:
      return "read";
    case FileOperation::kWrite:
      return "write";
    case FileOperation::kSync:
      return "sync";
    case FileOperation::kClose:
      return "close";
    case FileOperation::kStatus:
      return "look at";
    case FileOperation::kList:
      return "list folder";
    case FileOperation::kMakeFolder:
      return "make folder";
    case FileOperation::kRename:
      return "rename";
    case FileOperation::kSyncFolder:
      return "sync folder";
    case FileOperation::kRemoveFile:
      return "remove";
    case FileOperation::kRemoveFolder:
      return "remove folder";
    case FileOperation::kMakeLink:
      return "make link";
    case FileOperation::kReadLink:
      return "read link";
    case FileOperation::kLock:
      return "lock";
    case FileOperation::kReserve:
      return "reserve disk space for";
  }
  return "?";
}

FileError::FileError(FileOperation operation, const std::string& path, int error_number)
    : Error(classify(operation, error_number), compose(operation, path, error_number)),
      operation_(operation),
      error_number_(error_number) {}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  if (folder.back() == '/') return fmt::format("{}{}", folder, name);
  return fmt::format("{}/{}", folder, name);
}

namespace {
// Removes trailing slashes, because "a/b//" names the same folder as "a/b".
std::string_view without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}
}  // namespace

std::string parent_folder(std::string_view path) {
  path = without_trailing_slashes(path);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  if (slash == 0) return "/";
  return std::string(without_trailing_slashes(path.substr(0, slash)));
}

std::string file_name(std::string_view path) {
  path = without_trailing_slashes(path);
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

void read_exactly(const File& file, std::span<std::byte> destination, int64_t offset, std::string_view what) {
  const int64_t wanted = std::ssize(destination);
  const int64_t found = file.pread(destination, offset);
  if (found != wanted) {
    throw_error(ErrorCode::kBadData,
                "{}: the file ends in the middle of {}: {} bytes are expected at byte {}, but {} exist. The "
                "file was cut short or changed while it was read; copy or download it again",
                file.path(), what, wanted, offset, found);
  }
}

std::string start_of_file(FileSystem& files, const std::string& path) {
  std::string start(kDisguiseBytes, '\0');
  const auto file = files.open_read(path);
  start.resize(narrow<size_t>(file->pread(std::as_writable_bytes(std::span(start)), 0)));
  return start;
}

std::string read_text_file(FileSystem& files, const std::string& path, int64_t max_bytes) {
  const auto file = files.open_read(path);
  const int64_t size = file->size_bytes();
  if (size > max_bytes) {
    throw_error(ErrorCode::kBadData,
                "{}: the file has {} bytes, but may have at most {}. Check that it is the file you mean",
                path, size, max_bytes);
  }
  std::string text(narrow<size_t>(size), '\0');
  read_exactly(*file, std::as_writable_bytes(std::span(text)), 0, "its text");
  refuse_disguised_text(std::string_view(text).substr(0, kDisguiseBytes), path);
  return text;
}

WrittenFile write_synced_file(FileSystem& files, const std::string& path, std::string_view content) {
  const auto file = files.create(path);
  file->write(std::as_bytes(std::span(content)));
  file->sync();
  file->close();
  return {file_name(path), std::ssize(content), hash128(content)};
}

namespace {
// Calls visit(chunk) for the whole file, kFileChunkBytes at a time. Returns the number of bytes.
template <typename Visit>
int64_t for_each_chunk(const File& file, Visit&& visit) {
  std::vector<std::byte> chunk(kFileChunkBytes);
  int64_t offset = 0;
  while (true) {
    const int64_t found = file.pread(chunk, offset);
    visit(std::span(chunk).first(narrow<size_t>(found)));
    offset += found;
    if (found < kFileChunkBytes) return offset;
  }
}
}  // namespace

WrittenFile copy_synced_file(FileSystem& files, const std::string& from, const std::string& to) {
  const auto source = files.open_read(from);
  const auto copy = files.create(to);
  HashStream128 hash;
  const int64_t size = for_each_chunk(*source, [&](std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    hash.update(bytes);
    copy->write(bytes);
  });
  copy->sync();
  copy->close();
  return {file_name(to), size, hash.digest()};
}

WrittenFile hash_file(FileSystem& files, const std::string& path) {
  const auto file = files.open_read(path);
  HashStream128 hash;
  const int64_t size = for_each_chunk(*file, [&](std::span<const std::byte> bytes) { hash.update(bytes); });
  return {file_name(path), size, hash.digest()};
}

std::string temporary_path(const std::string& path) {
  // The process id makes names of different processes differ, and `count` makes those of one process differ.
  static std::atomic<uint64_t> count{0};
  const std::string name =
      fmt::format("{}{}-{}-{}", kTemporaryPrefix, file_name(path), ::getpid(), count.fetch_add(1));
  return join_path(parent_folder(path), name);
}

void replace_file(FileSystem& files, const std::string& path, std::string_view content) {
  const std::string folder = parent_folder(path);
  const std::string temporary = temporary_path(path);
  try {
    write_synced_file(files, temporary, content);
    files.rename(temporary, path);
  } catch (const FileError&) {
    try {
      files.remove_file(temporary);
    } catch (const FileError&) {
      // An error of removing the temporary file is ignored: the file may not exist, or the disk fails again. The first error is
      // rethrown below.
    }
    throw;
  }
  files.sync_folder(folder);
}

void make_folders(FileSystem& files, const std::string& path) {
  const auto status = files.status(path);
  if (status && status->kind == FileKind::kFolder) return;
  if (status) throw FileError(FileOperation::kMakeFolder, path, ENOTDIR);
  const std::string parent = parent_folder(path);
  if (parent != path) make_folders(files, parent);
  files.make_folder(path);
  files.sync_folder(parent);
}

void remove_tree(FileSystem& files, const std::string& path) {
  const std::string parent = parent_folder(path);
  const std::string name = file_name(path);
  // Find the kind of the entry in the list of its parent folder, which reports a symbolic link as a link. status() would follow
  // the link, and files outside of the tree could be removed.
  if (!files.status(parent)) return;
  const std::vector<FolderEntry> entries = files.list(parent);
  const auto entry = std::ranges::find(entries, name, &FolderEntry::name);
  if (entry == entries.end()) return;
  if (entry->kind != FileKind::kFolder) {
    files.remove_file(path);
    return;
  }
  for (const FolderEntry& child : files.list(path)) {
    if (child.kind == FileKind::kFolder) {
      remove_tree(files, join_path(path, child.name));
    } else {
      files.remove_file(join_path(path, child.name));
    }
  }
  files.remove_folder(path);
}

}  // namespace plimsoll
