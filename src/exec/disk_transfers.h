// Moves values between the arena and a scratch file while ops run: the queues kToDevice and kToHost of a CPU whose plan
// keeps values on a disk. Threads make the transfers by ordinary calls, each of which waits for its request.
//
// Why threads and not io_uring: a request has half a mebibyte and takes a disk of 1 GB/s half a millisecond, to which the
// change of a thread adds some microseconds. io_uring would save only these, and containers often forbid it.
//
// One thread starts transfers and waits for them. Nothing is allocated after construction.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/file.h"

namespace plimsoll {

enum class TransferDirection : uint8_t { kFromDisk, kToDisk };

// One copy between memory and the file, which may run many times, one at a time.
class DiskTransfer {
 public:
  // Bytes that are contiguous in memory and in the file.
  struct Part {
    std::byte* memory = nullptr;
    int64_t offset = 0;  // from the start of the file
    int64_t bytes = 0;
    int64_t value_end = 0;  // the end of the value in the file; the rest of its last block has no content
  };
  // `buffers`: transfer_scratch_bytes() of the largest part (base/disk_transfer.h); owned by the caller.
  DiskTransfer(TransferDirection direction, std::span<const Part> parts, std::span<std::byte> buffers);

 private:
  friend class DiskTransfers;
  // The part of whole blocks of the file that one request transfers.
  struct Piece {
    std::byte* memory = nullptr;
    int64_t first = 0;  // the bytes [first, first + bytes) of the file
    int64_t bytes = 0;
    int64_t block_begin = 0;  // the blocks that contain them
    int64_t block_bytes = 0;
    bool keeps_head =
        false;  // the first block, or the last one, contains bytes of others that a write has to keep
    bool keeps_tail = false;
  };
  // Appends the pieces of a part. Requires: buffers of `most_bytes`, whole blocks.
  static void cut(const Part& part, int64_t most_bytes, std::vector<Piece>& pieces);
  bool is_done() const { return num_done_ == pieces_.size(); }
  bool has_open() const { return next_ < pieces_.size(); }

  TransferDirection direction_;
  std::vector<Piece> pieces_;
  std::byte* buffers_;
  int64_t buffer_bytes_;
  // Used by DiskTransfers under its lock.
  uint32_t end_ = 0;          // the position of the first op that waits for it
  size_t next_ = 0;           // the first piece that no thread has taken
  size_t num_done_ = 0;       // pieces
  uint8_t free_buffers_ = 0;  // a bit per buffer
};

class DiskTransfers {
 public:
  // `most`: the largest number of transfers of a segment. Errors: kDevice if the operating system cannot create a thread.
  DiskTransfers(std::unique_ptr<ScratchFile> file, size_t most);
  // Waits for the requests that are under way, drops the others, and removes the file.
  ~DiskTransfers();
  DiskTransfers(const DiskTransfers&) = delete;
  DiskTransfers& operator=(const DiskTransfers&) = delete;

  const ScratchFile& file() const { return *file_; }

  // Starts a transfer, which has ended before the op at position `end` of its program.
  void start(const std::shared_ptr<DiskTransfer>& transfer, uint32_t end);
  // Waits for the transfers that must have ended before the op at this position. Errors: those of the file; after an error
  // nothing more is transferred.
  void wait_before(uint32_t position);
  // Waits for all transfers. Errors: as wait_before().
  void wait_for_all();

  // Read, write and fill bytes of the file. Requires: no transfer is under way. Errors: those of the file.
  void read(std::span<std::byte> destination, int64_t offset);
  void write(std::span<const std::byte> bytes, int64_t offset);
  // Requires: whole blocks.
  void fill(int64_t offset, int64_t bytes, uint8_t value);

 private:
  using Piece = DiskTransfer::Piece;
  // A piece that a thread has taken.
  struct Taken {
    DiskTransfer* transfer = nullptr;
    const Piece* piece = nullptr;
    int buffer = 0;
  };

  void work();
  Taken take_piece();
  void make(TransferDirection direction, const Piece& piece, std::byte* buffer);
  void write_piece(const Piece& piece, std::byte* buffer);
  template <typename IsWanted>
  void wait_for(const IsWanted& is_wanted);
  void stop();

  std::unique_ptr<ScratchFile> file_;
  std::vector<std::byte> own_buffer_memory_;
  std::byte* own_buffer_;  // for read(), write() and fill()
  std::mutex edges_;       // held while a block is read and written again because two values share it
  std::mutex mutex_;
  std::condition_variable has_work_;
  std::condition_variable is_done_;
  std::vector<std::shared_ptr<DiskTransfer>> started_;  // the transfers of this segment, in order
  size_t first_open_ = 0;                               // those before have no piece that is not taken
  std::exception_ptr failure_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll
