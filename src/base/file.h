// Files and folders with explicit durability: the one door to the disk for everything that Plimsoll must not
// lose, and an interface, so that tests put a disk behind it that fails or loses power at any call
// (base/file_fault.h).
//
// What it is not: no mapping of files into memory and no hidden buffers. A read goes by pread into the
// caller's memory and a write goes out of it, so that the memory of the process stays as planned.
//
// Durability follows POSIX and assumes no more. Written bytes survive a crash after File::sync(); a name
// (created, renamed, removed) survives after sync_folder() of the folder that holds it.
//
// Thread-safety: a FileSystem may be used by several threads; pread on one File may be called by several
// threads at once, everything else on a File by one. Paths are UTF-8 byte strings with '/' between folders.
//
// Errors: every function throws FileError on a failure of the operating system. Its message names the
// operation, the path, the system's text and what to do. Code kBadData for an input that is missing or may
// not be read, else kDevice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {

enum class FileOperation : uint8_t {
  kOpenRead,
  kCreate,
  kOpenAppend,
  kRead,
  kWrite,
  kSync,
  kClose,
  kStatus,
  kList,
  kMakeFolder,
  kRename,
  kSyncFolder,
  kRemoveFile,
  kRemoveFolder,
  kMakeLink,
  kReadLink,
};

// "open", "create", "write"...: the word that messages and traces use.
std::string_view file_operation_name(FileOperation operation);

// An Error that remembers what the operating system said.
class FileError : public Error {
 public:
  // Composes the message "cannot <operation> '<path>': <text> (<NAME>); <what to do>".
  FileError(FileOperation operation, const std::string& path, int error_number);
  FileOperation operation() const { return operation_; }
  int error_number() const { return error_number_; }

 private:
  FileOperation operation_;
  int error_number_;
};

enum class FileKind : uint8_t { kFile, kFolder, kLink, kOther };

struct FolderEntry {
  std::string name;
  FileKind kind = FileKind::kFile;  // of the entry itself: a symbolic link is kLink
};

struct FileStatus {
  FileKind kind = FileKind::kFile;
  int64_t size_bytes = 0;
};

// An open file. Closed by the destructor without a report; a writer calls sync() and close() to learn of late
// errors.
class File {
 public:
  virtual ~File() = default;
  // Reads from `offset` until destination is full or the file ends. Returns the number of bytes read.
  virtual int64_t pread(std::span<std::byte> destination, int64_t offset) const = 0;
  // Appends all of `bytes` after what this File has written so far.
  virtual void write(std::span<const std::byte> bytes) = 0;
  // Returns when what was written is on the disk. After an error the file must be written anew: the kernel
  // may have dropped the bytes, and a second sync would report success.
  virtual void sync() = 0;
  virtual void close() = 0;
  virtual int64_t size_bytes() const = 0;
  virtual const std::string& path() const = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual std::unique_ptr<File> open_read(const std::string& path) = 0;
  // A new empty file, or an existing one cut to nothing.
  virtual std::unique_ptr<File> create(const std::string& path) = 0;
  // An existing or new file; writes go to its end.
  virtual std::unique_ptr<File> open_append(const std::string& path) = 0;
  // Of what the path leads to, through symbolic links; nothing if nothing is there.
  virtual std::optional<FileStatus> status(const std::string& path) = 0;
  // Sorted by name, without "." and "..".
  virtual std::vector<FolderEntry> list(const std::string& folder) = 0;
  // Makes one folder; its parent exists. No error if a folder is there already.
  virtual void make_folder(const std::string& path) = 0;
  // Atomic; replaces a file, a link or an empty folder at `to`.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void sync_folder(const std::string& path) = 0;
  // Removes a file or a symbolic link (never what it leads to).
  virtual void remove_file(const std::string& path) = 0;
  // Removes an empty folder.
  virtual void remove_folder(const std::string& path) = 0;
  // A symbolic link at `path` whose text is `target`.
  virtual void make_link(const std::string& target, const std::string& path) = 0;
  // The text of a symbolic link; nothing if `path` is no link or does not exist.
  virtual std::optional<std::string> read_link(const std::string& path) = 0;
};

// The machine's own file system.
FileSystem& posix_file_system();

// "folder/name"; just the name when the folder is empty.
std::string join_path(std::string_view folder, std::string_view name);
// The folder that holds `path` ("." if it has no '/'), and its last part.
std::string parent_folder(std::string_view path);
std::string file_name(std::string_view path);

// Bytes that are hashed, copied or converted at once. The only memory that the functions below take of their
// own.
inline constexpr int64_t kFileChunkBytes = 256 * 1024;

// The whole of a text file. Errors: kBadData if it is larger than max_bytes (both values are named).
std::string read_text_file(FileSystem& files, const std::string& path, int64_t max_bytes);

// Fills destination from `offset`. Errors: kBadData if the file ends before (what it was for, wanted, found).
void read_exactly(const File& file, std::span<std::byte> destination, int64_t offset, std::string_view what);

// Name, size and hash of a file that was written.
struct WrittenFile {
  std::string name;
  int64_t size_bytes = 0;
  Hash128 hash;
};

// Creates `path` with this content and syncs the file (not its folder).
WrittenFile write_synced_file(FileSystem& files, const std::string& path, std::string_view content);

// Copies a file byte for byte in bounded chunks and syncs the copy (not its folder).
WrittenFile copy_synced_file(FileSystem& files, const std::string& from, const std::string& to);

// Names of files that are being written begin with this, so that what a killed process leaves can be told and
// removed.
inline constexpr std::string_view kTemporaryPrefix = ".plimsoll-tmp-";

// A name beside `path`, in the same folder, to write to before it is renamed to `path`. No two calls give the
// same one, in this process or in others of this machine. Thread-safe.
std::string temporary_path(const std::string& path);

// Replaces `path` so that a crash at any moment leaves the old content or the new: temporary name, sync,
// rename, sync of the folder. For files up to the size of a string. A failure leaves the old content and
// nothing else.
void replace_file(FileSystem& files, const std::string& path, std::string_view content);

// Hash of a whole file, read in bounded chunks.
WrittenFile hash_file(FileSystem& files, const std::string& path);

// Makes the folder and every missing one above it; each new name is synced in its parent.
void make_folders(FileSystem& files, const std::string& path);

// Removes a file, a link, or a folder with all that it holds. Links are not followed. Nothing there is no
// error.
void remove_tree(FileSystem& files, const std::string& path);

}  // namespace plimsoll
