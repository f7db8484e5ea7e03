#include "exec/disk_transfers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/disk_transfer.h"
#include "exec/backend.h"

namespace plimsoll {
namespace {

constexpr size_t kNumDiskThreads = 2 * kThreadsPerDirection;

int64_t begin_of_block(int64_t offset) {
  return offset / kBlockBytes * kBlockBytes;
}

std::span<std::byte> span_of(std::byte* data, int64_t bytes) {
  return {data, static_cast<size_t>(bytes)};
}

void copy_on_host(std::byte* to, const std::byte* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

class CpuTransferMemory final : public TransferMemory {
 public:
  CpuTransferMemory()
      : buffers_(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, kDiskBuffersBytes)), &std::free) {
    if (buffers_ == nullptr)
      throw_error(
          ErrorCode::kDevice,
          "cannot allocate {} bytes for the transfers from and to a disk: the machine has no more memory; "
          "end other programs, or leave --offload_optimizer out",
          kDiskBuffersBytes);
  }
  std::byte* buffers() const override { return buffers_.get(); }
  void copy(size_t, std::byte* to, const std::byte* from, int64_t bytes) override {
    copy_on_host(to, from, bytes);
  }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> buffers_;
};

}  // namespace

std::unique_ptr<TransferMemory> make_cpu_transfer_memory() {
  return std::make_unique<CpuTransferMemory>();
}

std::unique_ptr<DiskTransfers> make_disk_transfers(
    const Plan& plan, const DiskFile& disk,
    const std::function<std::unique_ptr<TransferMemory>(size_t most)>& make_memory) {
  if (plan.disk_bytes == 0) return nullptr;
  PLIMSOLL_CHECK(disk.files != nullptr,
                 "the plan stores {} bytes on a disk, but the executor was given no file for them",
                 plan.disk_bytes);
  size_t most = 0;
  for (const ProgramPlan& program : plan.programs)
    most = std::max(most, static_cast<size_t>(std::ranges::count_if(program.ops, &OpPlan::uses_disk)));
  return std::make_unique<DiskTransfers>(disk.files->create_scratch(disk.path, plan.disk_bytes), most,
                                         make_memory(most));
}

DiskTransfer::DiskTransfer(TransferDirection direction, std::span<const Part> parts) : direction_(direction) {
  for (const Part& part : parts) cut(part, pieces_);
}

void DiskTransfer::cut(const Part& part, std::vector<Piece>& pieces) {
  const int64_t end = part.offset + part.bytes;
  for (int64_t first = part.offset; first < end;) {
    const int64_t begin = begin_of_block(first);
    const int64_t last = std::min(end, begin + kTransferPieceBytes);
    const int64_t block_end = rounded_up_to_blocks(last);
    pieces.push_back({.memory = part.memory + (first - part.offset),
                      .first = first,
                      .bytes = last - first,
                      .block_begin = begin,
                      .block_bytes = block_end - begin,
                      .keeps_head = first > begin,
                      .keeps_tail = last < block_end && last < part.value_end});
    first = last;
  }
}

DiskTransfers::DiskTransfers(std::unique_ptr<ScratchFile> file, size_t most,
                             std::unique_ptr<TransferMemory> memory)
    : file_(std::move(file)), memory_(std::move(memory)) {
  started_.reserve(most);
  threads_.reserve(kNumDiskThreads);
  try {
    for (size_t i = 0; i < kNumDiskThreads; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    stop();
    throw_error(ErrorCode::kDevice, "cannot start the threads that read and write '{}': {}", file_->path(),
                error.what());
  }
}

DiskTransfers::~DiskTransfers() {
  stop();
}

void DiskTransfers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  has_work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void DiskTransfers::start(const std::shared_ptr<DiskTransfer>& transfer, uint32_t end) {
  if (transfer->pieces_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    PLIMSOLL_CHECK(
        started_.size() < started_.capacity(),
        "a forward pass, backward pass or update starts more than the {} disk transfers that were planned",
        started_.capacity());
    PLIMSOLL_CHECK(std::ranges::find(started_, transfer) == started_.end() || transfer->is_done(),
                   "a disk transfer must end before it starts again, but is still running");
    transfer->end_ = end;
    transfer->point_ = started_.size();
    transfer->next_ = transfer->num_done_ = 0;
    memory_->mark(transfer->point_);
    started_.push_back(transfer);
  }
  has_work_.notify_all();
}

template <typename IsWanted>
void DiskTransfers::wait_for(const IsWanted& is_wanted) {
  std::unique_lock lock(mutex_);
  is_done_.wait(lock, [&] {
    return failure_ != nullptr || std::ranges::all_of(started_, [&](const auto& transfer) {
             return transfer->is_done() || !is_wanted(*transfer);
           });
  });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void DiskTransfers::wait_before(uint32_t position) {
  // Only the calling thread adds to the list started_, so it may read the list without the lock.
  if (started_.empty()) return;
  wait_for([&](const DiskTransfer& transfer) { return transfer.end_ <= position; });
}

void DiskTransfers::wait_for_all() {
  if (started_.empty()) return;
  wait_for([](const DiskTransfer&) { return true; });
  const std::lock_guard lock(mutex_);
  started_.clear();
  first_open_ = {};
}

DiskTransfers::Taken DiskTransfers::take_piece(TransferDirection direction) {
  size_t& first = first_open_[static_cast<size_t>(direction)];
  while (first < started_.size() &&
         (started_[first]->direction_ != direction || !started_[first]->has_open()))
    ++first;
  if (first == started_.size()) return {};
  DiskTransfer& transfer = *started_[first];
  return {&transfer, &transfer.pieces_[transfer.next_++]};
}

std::byte* DiskTransfers::buffer_of(size_t thread) const {
  return memory_->buffers() + static_cast<int64_t>(thread) * kTransferPieceBytes;
}

std::span<std::byte> DiskTransfers::idle_buffer() const {
  return span_of(buffer_of(0), kTransferPieceBytes);
}

void DiskTransfers::work(size_t thread) {
  const TransferDirection direction =
      thread < kThreadsPerDirection ? TransferDirection::kFromDisk : TransferDirection::kToDisk;
  const auto copy = [&](std::byte* to, const std::byte* from, int64_t bytes) {
    memory_->copy(thread, to, from, bytes);
  };
  bool has_begun = false;
  std::unique_lock lock(mutex_);
  while (true) {
    Taken taken;
    has_work_.wait(lock, [&] {
      if (stop_ || failure_ != nullptr) return stop_;
      taken = take_piece(direction);
      return taken.transfer != nullptr;
    });
    if (stop_) return;
    lock.unlock();
    DiskTransfer& transfer = *taken.transfer;
    std::exception_ptr failure;
    try {
      if (!has_begun) memory_->begin_thread();
      has_begun = true;
      memory_->wait_for(transfer.point_);
      make(direction, *taken.piece, buffer_of(thread), copy);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    ++transfer.num_done_;
    if (failure != nullptr && failure_ == nullptr) failure_ = failure;
    if (transfer.is_done() || failure_ != nullptr) is_done_.notify_one();
  }
}

template <typename Copy>
void DiskTransfers::make(TransferDirection direction, const Piece& piece, std::byte* buffer,
                         const Copy& copy) {
  if (direction == TransferDirection::kToDisk) return write_piece(piece, buffer, copy);
  file_->read(span_of(buffer, piece.block_bytes), piece.block_begin);
  copy(piece.memory, buffer + (piece.first - piece.block_begin), piece.bytes);
}

// Writes whole blocks. Two transfers may write different parts of one block at the same time, because the slices of a
// parameter do not always end at the end of a block. A lock lets one thread at a time read, change and write such a block.
// A transfer that reads another part of the block needs no lock, because writing the block does not change that part.
template <typename Copy>
void DiskTransfers::write_piece(const Piece& piece, std::byte* buffer, const Copy& copy) {
  std::unique_lock edges(edges_, std::defer_lock);
  const int64_t head = piece.first - piece.block_begin;
  const int64_t tail = piece.block_bytes - head - piece.bytes;
  const int64_t last_block = piece.block_bytes - kBlockBytes;
  if (piece.keeps_head || piece.keeps_tail) edges.lock();
  if (piece.keeps_head) file_->read(span_of(buffer, kBlockBytes), piece.block_begin);
  if (piece.keeps_tail && (last_block > 0 || !piece.keeps_head))
    file_->read(span_of(buffer + last_block, kBlockBytes), piece.block_begin + last_block);
  if (!piece.keeps_tail) std::memset(buffer + head + piece.bytes, 0, static_cast<size_t>(tail));
  copy(buffer + head, piece.memory, piece.bytes);
  file_->write(span_of(buffer, piece.block_bytes), piece.block_begin);
}

void DiskTransfers::read(std::span<std::byte> destination, int64_t offset) {
  std::vector<Piece> pieces;
  DiskTransfer::cut({destination.data(), offset, std::ssize(destination), offset + std::ssize(destination)},
                    pieces);
  for (const Piece& piece : pieces)
    make(TransferDirection::kFromDisk, piece, buffer_of(kNumDiskThreads), copy_on_host);
}

void DiskTransfers::write(std::span<const std::byte> bytes, int64_t offset) {
  std::vector<Piece> pieces;
  // The const_cast is safe, because the bytes are only read. The last block may contain other values after these bytes. A transfer
  // overwrites the rest of a block with zeros if the value ends in this block. `value_end` is therefore set beyond the last block, so that
  // the rest of this block is kept.
  const DiskTransfer::Part part{.memory = const_cast<std::byte*>(bytes.data()),
                                .offset = offset,
                                .bytes = std::ssize(bytes),
                                .value_end = offset + std::ssize(bytes) + kBlockBytes};
  DiskTransfer::cut(part, pieces);
  for (const Piece& piece : pieces)
    make(TransferDirection::kToDisk, piece, buffer_of(kNumDiskThreads), copy_on_host);
}

void DiskTransfers::fill(int64_t offset, int64_t bytes, uint8_t value) {
  std::byte* buffer = buffer_of(kNumDiskThreads);
  const int64_t piece_bytes = std::min(bytes, kTransferPieceBytes);
  std::memset(buffer, value, static_cast<size_t>(piece_bytes));
  for (int64_t done = 0; done < bytes; done += piece_bytes)
    file_->write(span_of(buffer, std::min(piece_bytes, bytes - done)), offset + done);
}

}  // namespace plimsoll
