#include "exec/disk_transfers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/disk_transfer.h"

namespace plimsoll {
namespace {

// One for each buffer of a transfer in each direction.
constexpr int64_t kNumDiskThreads = 2 * kBuffersPerTransfer;

int64_t begin_of_block(int64_t offset) {
  return offset / kBlockBytes * kBlockBytes;
}

std::byte* aligned_to_block(std::byte* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return data + (static_cast<uintptr_t>(kBlockBytes) - address % kBlockBytes) % kBlockBytes;
}

std::span<std::byte> span_of(std::byte* data, int64_t bytes) {
  return {data, static_cast<size_t>(bytes)};
}

}  // namespace

DiskTransfer::DiskTransfer(TransferDirection direction, std::span<const Part> parts,
                           std::span<std::byte> buffers)
    : direction_(direction),
      buffers_(aligned_to_block(buffers.data())),
      buffer_bytes_((std::ssize(buffers) - kBlockBytes) / kBuffersPerTransfer) {
  PLIMSOLL_CHECK(buffer_bytes_ > 0 && buffer_bytes_ % kBlockBytes == 0,
                 "a transfer with {} bytes for {} buffers", buffers.size(), kBuffersPerTransfer);
  for (const Part& part : parts) cut(part, buffer_bytes_, pieces_);
  free_buffers_ = (1u << kBuffersPerTransfer) - 1;
}

void DiskTransfer::cut(const Part& part, int64_t most_bytes, std::vector<Piece>& pieces) {
  const int64_t end = part.offset + part.bytes;
  for (int64_t first = part.offset; first < end;) {
    const int64_t begin = begin_of_block(first);
    const int64_t last = std::min(end, begin + most_bytes);
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

DiskTransfers::DiskTransfers(std::unique_ptr<ScratchFile> file, size_t most)
    : file_(std::move(file)),
      own_buffer_memory_(static_cast<size_t>(kTransferPieceBytes + kBlockBytes)),
      own_buffer_(aligned_to_block(own_buffer_memory_.data())) {
  started_.reserve(most);
  threads_.reserve(kNumDiskThreads);
  try {
    for (int64_t i = 0; i < kNumDiskThreads; ++i) threads_.emplace_back([this] { work(); });
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
    PLIMSOLL_CHECK(started_.size() < started_.capacity(), "more than {} transfers in a segment",
                   started_.capacity());
    PLIMSOLL_CHECK(std::ranges::find(started_, transfer) == started_.end() || transfer->is_done(),
                   "a transfer starts again before it has ended");
    transfer->end_ = end;
    transfer->next_ = transfer->num_done_ = 0;
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
  // Only this thread changes the list, so that it may be looked at without the lock.
  if (started_.empty()) return;
  wait_for([&](const DiskTransfer& transfer) { return transfer.end_ <= position; });
}

void DiskTransfers::wait_for_all() {
  if (started_.empty()) return;
  wait_for([](const DiskTransfer&) { return true; });
  const std::lock_guard lock(mutex_);
  started_.clear();
  first_open_ = 0;
}

DiskTransfers::Taken DiskTransfers::take_piece() {
  while (first_open_ < started_.size() && !started_[first_open_]->has_open()) ++first_open_;
  for (size_t i = first_open_; i < started_.size(); ++i) {
    DiskTransfer& transfer = *started_[i];
    if (!transfer.has_open() || transfer.free_buffers_ == 0) continue;
    const int buffer = std::countr_zero(transfer.free_buffers_);
    transfer.free_buffers_ = static_cast<uint8_t>(transfer.free_buffers_ & ~(1u << buffer));
    return {&transfer, &transfer.pieces_[transfer.next_++], buffer};
  }
  return {};
}

void DiskTransfers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    Taken taken;
    has_work_.wait(lock, [&] {
      if (stop_ || failure_ != nullptr) return stop_;
      taken = take_piece();
      return taken.transfer != nullptr;
    });
    if (stop_) return;
    lock.unlock();
    DiskTransfer& transfer = *taken.transfer;
    std::exception_ptr failure;
    try {
      make(transfer.direction_, *taken.piece, transfer.buffers_ + taken.buffer * transfer.buffer_bytes_);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    transfer.free_buffers_ = static_cast<uint8_t>(transfer.free_buffers_ | (1u << taken.buffer));
    ++transfer.num_done_;
    if (failure != nullptr && failure_ == nullptr) failure_ = failure;
    if (transfer.is_done() || failure_ != nullptr) is_done_.notify_one();
  }
}

void DiskTransfers::make(TransferDirection direction, const Piece& piece, std::byte* buffer) {
  if (direction == TransferDirection::kToDisk) return write_piece(piece, buffer);
  file_->read(span_of(buffer, piece.block_bytes), piece.block_begin);
  std::memcpy(piece.memory, buffer + (piece.first - piece.block_begin), static_cast<size_t>(piece.bytes));
}

// Writes whole blocks. Two transfers may write different parts of one block at the same time, because the updates of two
// slices of a parameter need not end between blocks. Such a block is read, changed and written by one thread at a time. A
// transfer that reads the other part meanwhile gets it from before or after the write, where it is the same.
void DiskTransfers::write_piece(const Piece& piece, std::byte* buffer) {
  std::unique_lock edges(edges_, std::defer_lock);
  const int64_t head = piece.first - piece.block_begin;
  const int64_t tail = piece.block_bytes - head - piece.bytes;
  const int64_t last_block = piece.block_bytes - kBlockBytes;
  if (piece.keeps_head || piece.keeps_tail) edges.lock();
  if (piece.keeps_head) file_->read(span_of(buffer, kBlockBytes), piece.block_begin);
  if (piece.keeps_tail && (last_block > 0 || !piece.keeps_head))
    file_->read(span_of(buffer + last_block, kBlockBytes), piece.block_begin + last_block);
  if (!piece.keeps_tail) std::memset(buffer + head + piece.bytes, 0, static_cast<size_t>(tail));
  std::memcpy(buffer + head, piece.memory, static_cast<size_t>(piece.bytes));
  file_->write(span_of(buffer, piece.block_bytes), piece.block_begin);
}

void DiskTransfers::read(std::span<std::byte> destination, int64_t offset) {
  std::vector<Piece> pieces;
  DiskTransfer::cut({destination.data(), offset, std::ssize(destination), offset + std::ssize(destination)},
                    kTransferPieceBytes, pieces);
  for (const Piece& piece : pieces) make(TransferDirection::kFromDisk, piece, own_buffer_);
}

void DiskTransfers::write(std::span<const std::byte> bytes, int64_t offset) {
  std::vector<Piece> pieces;
  // The bytes are only read. The end of the value is not known, so that what follows them is kept.
  const DiskTransfer::Part part{.memory = const_cast<std::byte*>(bytes.data()),
                                .offset = offset,
                                .bytes = std::ssize(bytes),
                                .value_end = offset + std::ssize(bytes) + kBlockBytes};
  DiskTransfer::cut(part, kTransferPieceBytes, pieces);
  for (const Piece& piece : pieces) make(TransferDirection::kToDisk, piece, own_buffer_);
}

void DiskTransfers::fill(int64_t offset, int64_t bytes, uint8_t value) {
  const int64_t piece_bytes = std::min(bytes, kTransferPieceBytes);
  std::memset(own_buffer_, value, static_cast<size_t>(piece_bytes));
  for (int64_t done = 0; done < bytes; done += piece_bytes)
    file_->write(span_of(own_buffer_, std::min(piece_bytes, bytes - done)), offset + done);
}

}  // namespace plimsoll
