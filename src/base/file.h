// Files and folders with explicit durability. All data that Plimsoll must not lose goes through this
// interface. Tests replace it with a disk that fails or loses power at any call (base/file_fault.h).
//
// It has no hidden buffers: pread reads directly into the caller's memory and write writes directly from it, so the
// memory of the process stays as planned. A file is mapped into memory only by File::map(), whose pages can be released.
//
// Durability relies on POSIX only. Written bytes survive a crash after File::sync(). A name that was created,
// renamed or removed survives after sync_folder() of its folder.
//
// Thread-safety: several threads may use one FileSystem and call pread on one File. All other functions of a
// File may be called by one thread at a time. Paths are UTF-8 byte strings with '/' between folders.
//
// Errors: every function throws FileError if the operating system reports a failure. The message names the
// operation, the path, the system's text and the remedy. The code is kBadData for an input that is missing or
// not readable, otherwise kDevice.
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
  kOpenWrite,
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
  kLock,
  kReserve,
};

// Returns the operation as a word for error messages and for FaultyFileSystem::trace(): "open", "create", "write", ...
std::string_view file_operation_name(FileOperation operation);

// An Error that stores the failed operation and the error number of the operating system.
class FileError : public Error {
 public:
  // Creates the message "cannot <operation> '<path>': <text> (<NAME>); <what to do>".
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
  FileKind kind = FileKind::kFile;  // kind of the entry itself: a symbolic link is kLink
};

struct FileStatus {
  FileKind kind = FileKind::kFile;
  int64_t size_bytes = 0;
};

// A complete file in memory, for reading. The kernel reads its pages when they are used, drops them when memory is
// short, and shares them between processes. They count as memory of the process until it releases them. Thread-safe.
// The file must keep its size: files of Plimsoll are replaced, not changed.
class FileMapping {
 public:
  virtual ~FileMapping() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  // Removes all pages from the memory of this process. The kernel keeps them in its page cache, so the bytes remain
  // usable. Cost: one system call, which takes almost no time if no page is in memory.
  virtual void release_pages() const = 0;
};

// An open file. The destructor closes it and ignores errors. A writer must therefore call sync() and close(), which report errors
// of earlier writes.
class File {
 public:
  virtual ~File() = default;
  // Reads from `offset` until the destination is full or the file ends. Returns the number of bytes read.
  virtual int64_t pread(std::span<std::byte> destination, int64_t offset) const = 0;
  // Appends all of `bytes` to the data that was written through this File.
  virtual void write(std::span<const std::byte> bytes) = 0;
  // Writes all of `bytes` at `offset`. Several processes may write different ranges of one file at the same time.
  virtual void write_at(std::span<const std::byte> bytes, int64_t offset) = 0;
  // Sets the size of the file. New bytes are zero and take no space on the disk until they are written.
  virtual void resize(int64_t bytes) = 0;
  // Asks the system to start writing a range to the disk, so that a later sync() takes less time. There is no guarantee that it
  // does.
  virtual void start_sync(int64_t /*offset*/, int64_t /*bytes*/) {}
  // Returns when the written data is on the disk. After an error the file must be written again from the
  // start: the kernel may have dropped the bytes, and a second sync would report success.
  virtual void sync() = 0;
  virtual void close() = 0;
  virtual int64_t size_bytes() const = 0;
  virtual const std::string& path() const = 0;
  // Maps the complete file, which stays mapped when this File is closed. Returns null if the file system cannot map it,
  // or if it is empty; the caller then reads it.
  virtual std::shared_ptr<const FileMapping> map() const { return nullptr; }
};

// Transfers that bypass the cache of the kernel must have offsets, sizes and addresses that are multiples of this number: the
// size of a page, which is a multiple of the block size of all common disks.
inline constexpr int64_t kBlockBytes = 4096;
constexpr int64_t rounded_up_to_blocks(int64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

// A file of fixed size for data of this run only, which is read and written in any order. It is locked while it is open.
// The destructor removes it. Its content is not durable. Thread-safe; what a read returns of bytes that are written at the
// same time is not specified.
class ScratchFile {
 public:
  virtual ~ScratchFile() = default;
  // read() fills the destination from `offset`, and write() writes all of `bytes` at `offset`. Requires: if is_direct(), the
  // offset, the size and the address in memory are multiples of kBlockBytes. Errors: kDevice, also if the file has become
  // shorter than the size with which it was created.
  virtual void read(std::span<std::byte> destination, int64_t offset) const = 0;
  virtual void write(std::span<const std::byte> bytes, int64_t offset) = 0;
  // Returns true if transfers bypass the cache of the kernel (O_DIRECT), which some file systems do not support.
  virtual bool is_direct() const = 0;
  virtual const std::string& path() const = 0;
};

// A lock that only one holder can have at a time, even across the processes of a machine. The destructor releases it.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// The free space and the permissions of a folder.
struct FolderSpace {
  int64_t free_bytes = 0;    // number of bytes that this user may still write to the disk
  bool is_writable = false;  // true if this user may create and remove files in the folder
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual std::unique_ptr<File> open_read(const std::string& path) = 0;
  // Creates a file, or truncates an existing one to zero bytes.
  virtual std::unique_ptr<File> create(const std::string& path) = 0;
  // Opens an existing file or creates it. Writes append to its end.
  virtual std::unique_ptr<File> open_append(const std::string& path) = 0;
  // Opens an existing file for write_at(). Its content stays.
  virtual std::unique_ptr<File> open_write(const std::string& path) = 0;
  // Returns the status of a file or folder. If the path is a symbolic link, it is the status of the link's target. Returns
  // nothing if the path does not exist.
  virtual std::optional<FileStatus> status(const std::string& path) = 0;
  // Returns the entries sorted by name, without "." and "..".
  virtual std::vector<FolderEntry> list(const std::string& folder) = 0;
  // Creates one folder. Its parent must exist. An existing folder is not an error.
  virtual void make_folder(const std::string& path) = 0;
  // Renames atomically. Replaces a file, a link or an empty folder at `to`.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void sync_folder(const std::string& path) = 0;
  // Removes a file or a symbolic link (never the target of the link).
  virtual void remove_file(const std::string& path) = 0;
  // Removes an empty folder.
  virtual void remove_folder(const std::string& path) = 0;
  // Creates a symbolic link at `path` that refers to `target`.
  virtual void make_link(const std::string& target, const std::string& path) = 0;
  // Returns the target of a symbolic link, or nothing if `path` is not a link or does not exist.
  virtual std::optional<std::string> read_link(const std::string& path) = 0;
  // Creates a scratch file, whose bytes are zero, and reserves its space on the disk if the file system can do that.
  // Replaces a file of this name that no process has locked: a killed run left it. Errors: kDevice, also if another
  // process has the file open.
  virtual std::unique_ptr<ScratchFile> create_scratch(const std::string& path, int64_t bytes) = 0;
  // Locks the file at `path`, which is created if it does not exist and stays when it is unlocked. Returns null if it is
  // locked already. The lock is that of flock(2), which Hugging Face's tools use too. On a file system without it, every
  // caller gets a lock.
  virtual std::unique_ptr<FileLock> try_lock(const std::string& path) = 0;
  // Returns the free space and the permissions of a folder. Requires: the folder exists.
  virtual FolderSpace space_of(const std::string& folder) = 0;
};

// Returns the real file system of this machine, which uses POSIX calls.
FileSystem& posix_file_system();
// Returns a file system that reads the files of this machine but discards all changes. It is used by ranks whose files another
// rank writes.
FileSystem& reading_file_system();

// Returns "folder/name", or only the name if the folder is empty.
std::string join_path(std::string_view folder, std::string_view name);
// Return the folder that contains `path` ("." if the path has no '/') and the last component of the path.
std::string parent_folder(std::string_view path);
std::string file_name(std::string_view path);

// Size of the chunks in which files are hashed, copied or converted. The functions below allocate no more
// than this.
inline constexpr int64_t kFileChunkBytes = 256 * 1024;

// Reads a complete text file. Errors: kBadData if it is larger than max_bytes (the message states both sizes), and if
// its first bytes show that it is not text, such as a compressed file, or not the real content, such as a Git LFS
// pointer (disguised_file.h).
std::string read_text_file(FileSystem& files, const std::string& path, int64_t max_bytes);

// Returns the first bytes of a file, as many as refuse_disguised_text() needs to recognize content that does not match the name
// (disguised_file.h).
std::string start_of_file(FileSystem& files, const std::string& path);

// Fills the destination with the bytes from `offset`. Errors: kBadData if the file is too short; the message
// states `what` the bytes are for and both sizes.
void read_exactly(const File& file, std::span<std::byte> destination, int64_t offset, std::string_view what);

// The name, size and hash of a file that was written.
struct WrittenFile {
  std::string name;
  int64_t size_bytes = 0;
  Hash128 hash;
};

// Creates `path` with this content and syncs the file, but not its folder.
WrittenFile write_synced_file(FileSystem& files, const std::string& path, std::string_view content);

// Copies a file in bounded chunks and syncs the copy, but not its folder.
WrittenFile copy_synced_file(FileSystem& files, const std::string& from, const std::string& to);

// Prefix of the names of unfinished files. Plimsoll recognizes and removes such files that a killed process left.
inline constexpr std::string_view kTemporaryPrefix = ".plimsoll-tmp-";

// Returns a temporary name in the folder of `path`, to be renamed to `path` later. Every call returns a
// different name, within this process and between the processes of this machine. Thread-safe.
std::string temporary_path(const std::string& path);

// Replaces `path` such that a crash at any moment leaves either the old or the new content: writes to a
// temporary name, syncs, renames, and syncs the folder. The content must fit into a string. If it fails, the
// old content remains and no other file is left.
void replace_file(FileSystem& files, const std::string& path, std::string_view content);

// Computes the hash of a complete file, which is read in bounded chunks.
WrittenFile hash_file(FileSystem& files, const std::string& path);

// Creates the folder and its missing parents, and syncs each parent.
void make_folders(FileSystem& files, const std::string& path);

// Removes a file, a link, or a folder with its content. Links are not followed. It is not an error if `path`
// does not exist.
void remove_tree(FileSystem& files, const std::string& path);

}  // namespace plimsoll
