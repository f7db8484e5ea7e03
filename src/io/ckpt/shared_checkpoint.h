// A checkpoint that the ranks of a run write together. Each rank writes its part of every tensor file at the offset of this part, so that
// tensors need not be gathered on one rank. The files have the same bytes as those of save_checkpoint(); only the manifest differs,
// because it contains a hash per written part instead of one per file.
//
// Each rank creates an object with the same list of tensors. If the ranks divide a tensor among them (TensorSource::own), each rank writes
// the bytes that it has. The bytes of all other tensors are divided into equal shares, one per rank. The caller has to synchronize the
// ranks: every rank must have ended one of the steps below before any rank begins the next one. The caller also passes the parts of all
// ranks to commit(). If a step fails on any rank, the first rank calls discard().
//
// The invariants of checkpoint.h hold: until commit(), everything is in tmp-checkpoint-N. The file system must let several
// processes write different ranges of one file.
//
// Thread-safety: one thread at a time uses an object; its steps may run in different threads. Errors: FileError from the disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/ckpt/checkpoint.h"
#include "io/ckpt/manifest.h"

namespace plimsoll {

// A byte range of a tensor file that one rank has written, with its hash.
struct WrittenPart {
  int64_t file = 0;  // index in the list of tensor files
  int64_t offset = 0;
  int64_t bytes = 0;
  Hash128 hash;
};

class SharedCheckpoint {
 public:
  // `contents` must stay valid until the tensors have been written or copied. On ranks other than the first one, it needs to contain only
  // the tensors and the settings that determine into which files they are written.
  SharedCheckpoint(FileSystem& files, std::string output_folder, int64_t step, CheckpointContents contents,
                   int rank, int num_ranks);
  SharedCheckpoint(const SharedCheckpoint&) = delete;
  SharedCheckpoint& operator=(const SharedCheckpoint&) = delete;

  // Returns the number of bytes of tensors that this rank writes.
  int64_t own_bytes() const { return own_bytes_; }
  // Copies the bytes that this rank writes into `buffer`. write_parts() then reads them from there, so the tensors may change after this
  // call. For tensors with TensorSource::is_exchanged, the ranks exchange bytes during this call. Requires: buffer.size() >= own_bytes();
  // the buffer outlives write_parts().
  void copy_to(std::span<std::byte> buffer);

  // First step, only on the first rank: creates the temporary folder and all small files, and creates the tensor files without their
  // content.
  void create_files();
  // Second step, on each rank: writes and syncs the parts of this rank. If copy_to() was not called, the ranks exchange the bytes of
  // tensors with TensorSource::is_exchanged during this call. They do so even after a disk error, because otherwise the other ranks would
  // wait forever. Returns the written parts. If `cancelled` becomes true, returns early with only the parts that were written until then.
  std::vector<WrittenPart> write_parts(const std::atomic<bool>& cancelled);
  // Last step, only on the first rank: writes the manifest and renames the temporary folder to its final name. Returns the path.
  std::string commit(std::span<const WrittenPart> parts_of_all_ranks);

  // Removes the temporary folder after a failure. Errors are ignored.
  void discard();
  // Returns the path that the checkpoint has when it is complete.
  std::string path() const;
  // Returns the message for the user that the checkpoint was not saved, with the reason `cause`.
  std::string not_saved_message(std::string_view cause) const;

 private:
  struct TensorFile {
    std::string name;
    std::vector<TensorSource> tensors;
    SafetensorsLayout layout = {};
  };
  // A byte range [begin, end) of a tensor that this rank writes.
  struct OwnRange {
    size_t file = 0;
    const SafetensorsLayout::Place* place = nullptr;
    int64_t begin = 0;
    int64_t end = 0;
  };
  class PartWriter;

  void add_file(std::string name, std::vector<TensorSource> tensors);
  void find_own_ranges(size_t file);
  // Calls put(file, offset in the file, bytes) for all bytes that this rank writes, in the order of the files.
  template <typename Put>
  void for_each_own_piece(const std::atomic<bool>& cancelled, const Put& put) const;

  FileSystem& files_;
  std::string output_folder_;
  int64_t step_;
  CheckpointContents contents_;
  int rank_;
  int num_ranks_;
  std::vector<TensorFile> tensor_files_;
  std::vector<OwnRange> ranges_;
  int64_t own_bytes_ = 0;
  bool is_copied_ = false;
  std::span<const std::byte> copy_;  // the bytes that this rank writes, if copy_to() was called
  internal::Manifest manifest_;      // the files written so far; used on the first rank only
};

}  // namespace plimsoll
