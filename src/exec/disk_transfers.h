// Moves values between the arena and a scratch file on a disk while ops run. Threads read and write the file by ordinary blocking calls.
//
// Threads are used instead of io_uring: a request of 512 KiB takes half a millisecond on a disk of 1 GB/s, and switching
// between threads adds only some microseconds. io_uring would save these microseconds, but containers often forbid it.
//
// One thread starts transfers and waits for them. Nothing is allocated after construction.
#pragma once

#include <array>
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
inline constexpr size_t kNumTransferDirections = 2;

// Access to the memory of the device, and the host buffers through which values pass between this memory and the disk. The transfer threads
// call these functions; only mark() is called by the thread that starts the transfers.
class TransferMemory {
 public:
  virtual ~TransferMemory() = default;
  // Returns kDiskBuffersBytes (base/disk_transfer.h) of host memory at a multiple of kBlockBytes.
  virtual std::byte* buffers() const = 0;
  // Has to be called by each thread before its first copy. Errors: kDevice.
  virtual void begin_thread() {}
  // Records, under the number `point`, all work that the device has received so far. Errors: kDevice.
  virtual void mark(size_t /*point*/) {}
  // Waits until the device has finished the work that mark() recorded under this number. Errors: kDevice.
  virtual void wait_for(size_t /*point*/) const {}
  // Copies between a host buffer and the device's memory, in either direction, and waits for the copy. Errors: kDevice.
  virtual void copy(size_t thread, std::byte* to, const std::byte* from, int64_t bytes) = 0;
};

// Returns the TransferMemory of a CPU. Its mark() and wait_for() do nothing, because a CPU has finished all
// work that it received.
std::unique_ptr<TransferMemory> make_cpu_transfer_memory();

// A copy between memory and the file. It can be started many times, but not again before it has ended.
class DiskTransfer {
 public:
  // Bytes that are contiguous in memory and in the file.
  struct Part {
    std::byte* memory = nullptr;
    int64_t offset = 0;  // position of the first byte in the file
    int64_t bytes = 0;
    int64_t value_end = 0;  // where the value ends in the file; the rest of the last block is unused
  };
  DiskTransfer(TransferDirection direction, std::span<const Part> parts);

 private:
  friend class DiskTransfers;
  // The range of bytes that one request transfers, and the whole blocks of the file that contain it.
  struct Piece {
    std::byte* memory = nullptr;
    int64_t first = 0;  // the bytes [first, first + bytes) of the file
    int64_t bytes = 0;
    int64_t block_begin = 0;  // begin of the first block that contains bytes of this range
    int64_t block_bytes = 0;
    bool keeps_head =
        false;  // true if the first or last block contains bytes outside this range, which a write must keep
    bool keeps_tail = false;
  };
  // Cuts a part into pieces that one request can transfer, and appends them to `pieces`.
  static void cut(const Part& part, std::vector<Piece>& pieces);
  bool is_done() const { return num_done_ == pieces_.size(); }
  bool has_open() const { return next_ < pieces_.size(); }

  TransferDirection direction_;
  std::vector<Piece> pieces_;
  // The members below are used by DiskTransfers while it holds its lock.
  uint32_t end_ = 0;  // position in the program of the first op that waits for the transfer
  // The number that was passed to mark(); the transfer starts after the work that was marked.
  size_t point_ = 0;
  size_t next_ = 0;      // index of the first piece that no thread has taken
  size_t num_done_ = 0;  // number of pieces that were transferred
};

class DiskTransfers {
 public:
  // `most` is the largest number of transfers in one forward pass, backward pass or update. Errors: kDevice if the system refuses a thread.
  DiskTransfers(std::unique_ptr<ScratchFile> file, size_t most,
                std::unique_ptr<TransferMemory> memory = make_cpu_transfer_memory());
  // Waits for the requests that are being executed, drops all others, and removes the file.
  ~DiskTransfers();
  DiskTransfers(const DiskTransfers&) = delete;
  DiskTransfers& operator=(const DiskTransfers&) = delete;

  const ScratchFile& file() const { return *file_; }

  // Starts a transfer after the work that the device has received so far. The transfer must end before the op at position `end` of its
  // program starts. Transfers in one direction are executed in the order of the calls.
  void start(const std::shared_ptr<DiskTransfer>& transfer, uint32_t end);
  // Waits for the transfers that must have ended before the op at this position. Errors: those of the file; after an error
  // nothing more is transferred.
  void wait_before(uint32_t position);
  // Waits for all transfers. Errors: as wait_before().
  void wait_for_all();

  // Returns a buffer of kTransferPieceBytes bytes that the caller may use; for a GPU it is pinned. Requires: no transfer runs until the
  // caller no longer uses the buffer.
  std::span<std::byte> idle_buffer() const;

  // Read, write and fill bytes of the file, from and to host memory. Requires: no transfer is under way. Errors: those of the
  // file.
  void read(std::span<std::byte> destination, int64_t offset);
  void write(std::span<const std::byte> bytes, int64_t offset);
  // Fills whole blocks with `value`. Requires: `offset` and `bytes` are multiples of the block size.
  void fill(int64_t offset, int64_t bytes, uint8_t value);

 private:
  using Piece = DiskTransfer::Piece;
  // A piece of a transfer that a thread has taken from the list, and transfers next.
  struct Taken {
    DiskTransfer* transfer = nullptr;
    const Piece* piece = nullptr;
  };

  void work(size_t thread);
  Taken take_piece(TransferDirection direction);
  std::byte* buffer_of(size_t thread) const;
  template <typename Copy>
  void make(TransferDirection direction, const Piece& piece, std::byte* buffer, const Copy& copy);
  template <typename Copy>
  void write_piece(const Piece& piece, std::byte* buffer, const Copy& copy);
  template <typename IsWanted>
  void wait_for(const IsWanted& is_wanted);
  void stop();

  std::unique_ptr<ScratchFile> file_;
  std::unique_ptr<TransferMemory> memory_;
  std::mutex edges_;  // locked while a block that two values share is read, changed and written
  std::mutex mutex_;
  std::condition_variable has_work_;
  std::condition_variable is_done_;
  // The transfers of the current forward pass, backward pass or update, in the order in which they were started.
  std::vector<std::shared_ptr<DiskTransfer>> started_;
  std::array<size_t, kNumTransferDirections> first_open_ =
      // For each direction, an index in started_: no transfer before it in this direction has a piece that is still to be taken by a
      // thread.
      {};
  std::exception_ptr failure_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll
