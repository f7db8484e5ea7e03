// A checkpoint that the ranks of a run write together: each rank writes its part of every file of tensors at the offset of that
// part, and no tensor is sent to another rank. The files have the same bytes as those of save_checkpoint(); only the manifest
// differs, because it has a hash per written part instead of one per file.
//
// Each rank makes an object with the same tensors. Tensors that the ranks divide (TensorSource::own) are written by their owners;
// the bytes of all others are divided into equal shares. The steps below have to follow one another on all ranks: the caller makes
// sure that every rank has ended one step before any rank begins the next, and passes the parts of all ranks to commit(). If a step
// fails on any rank, the first rank calls discard().
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

// A range of a file of tensors that one rank has written.
struct WrittenPart {
  int64_t file = 0;  // index of the file among the files of tensors
  int64_t offset = 0;
  int64_t bytes = 0;
  Hash128 hash;
};

class SharedCheckpoint {
 public:
  // `contents` must stay valid until the tensors have been written or copied. Ranks other than the first one only need the tensors and
  // the settings that determine into which files they are written.
  SharedCheckpoint(FileSystem& files, std::string output_folder, int64_t step, CheckpointContents contents,
                   int rank, int num_ranks);
  SharedCheckpoint(const SharedCheckpoint&) = delete;
  SharedCheckpoint& operator=(const SharedCheckpoint&) = delete;

  // Returns the bytes of tensors that this rank writes.
  int64_t own_bytes() const { return own_bytes_; }
  // Copies the bytes that this rank writes into `buffer`, from which write_parts() then reads them, so that the tensors are not needed
  // any longer. Exchanges tensors that have TensorSource::is_exchanged. Requires: buffer.size() >= own_bytes(); the buffer outlives
  // write_parts().
  void copy_to(std::span<std::byte> buffer);

  // First step, on the first rank: creates the folder, all small files, and the files of tensors without their content.
  void create_files();
  // Second step, on each rank: writes and syncs the parts of this rank. Without copy_to(), exchanges tensors that have
  // TensorSource::is_exchanged, also after a failure of the disk, so that other ranks do not wait. Returns early with an incomplete
  // list once `cancelled` is true.
  std::vector<WrittenPart> write_parts(const std::atomic<bool>& cancelled);
  // Last step, on the first rank: writes the manifest and gives the folder its final name. Returns the path.
  std::string commit(std::span<const WrittenPart> parts_of_all_ranks);

  // Removes the temporary folder. Ignores errors.
  void discard();
  // Returns the path of the complete checkpoint.
  std::string path() const;
  // Returns the message for the user that the checkpoint was not saved because of `cause`.
  std::string not_saved_message(std::string_view cause) const;

 private:
  struct TensorFile {
    std::string name;
    std::vector<TensorSource> tensors;
    SafetensorsLayout layout = {};
  };
  // The bytes [begin, end) of a tensor that this rank writes.
  struct OwnRange {
    size_t file = 0;
    const SafetensorsLayout::Place* place = nullptr;
    int64_t begin = 0;
    int64_t end = 0;
  };
  class PartWriter;

  void add_file(std::string name, std::vector<TensorSource> tensors);
  void find_own_ranges(size_t file);
  // Calls put(file, offset in the file, bytes) for all bytes of this rank, in the order of the files.
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
  std::span<const std::byte> copy_;  // the bytes of this rank, if copy_to() was called
  internal::Manifest manifest_;      // filled on the first rank only
};

}  // namespace plimsoll
