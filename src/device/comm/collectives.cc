#include "device/comm/collectives.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "base/view.h"

namespace plimsoll {
namespace {

// A range of elements, or of bytes, of the data that is exchanged.
struct Range {
  int64_t begin = 0;
  int64_t size = 0;
};

// Divides `whole` into `count` ranges whose sizes differ by at most one, and returns the one with this index.
Range part_of(Range whole, int64_t index, int64_t count) {
  const int64_t quotient = whole.size / count;
  const int64_t remainder = whole.size % count;
  return {.begin = whole.begin + index * quotient + std::min(index, remainder),
          .size = quotient + (index < remainder ? 1 : 0)};
}

// Divides `size` elements into `count` ranges of almost equal sizes.
std::vector<Range> equal_parts(int64_t size, int count) {
  std::vector<Range> parts;
  parts.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) parts.push_back(part_of({.begin = 0, .size = size}, i, count));
  return parts;
}

// Returns consecutive ranges of these sizes, beginning at 0.
std::vector<Range> parts_of_sizes(std::span<const int64_t> sizes) {
  std::vector<Range> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.push_back({.begin = begin, .size = size});
    begin += size;
  }
  return parts;
}

int64_t largest_size(const std::vector<Range>& parts) {
  int64_t largest = 0;
  for (const Range& part : parts) largest = std::max(largest, part.size);
  return largest;
}

int modulo(int64_t value, int size) {
  return static_cast<int>(((value % size) + size) % size);
}

// Returns the number of segments into which a chunk (the data that belongs to one rank) is divided. Each segment is
// sent as one message. There are at least two, so that a rank can forward one segment while the next one arrives.
int64_t segments_per_chunk(int64_t chunk_bytes) {
  const auto segment_bytes = static_cast<int64_t>(kSegmentBytes);
  return std::max<int64_t>(2, (chunk_bytes + segment_bytes - 1) / segment_bytes + 1);
}

size_t bytes_of(int64_t elements, size_t element_bytes) {
  return static_cast<size_t>(elements) * element_bytes;
}

// The order in which data travels around a ring of n ranks. In each of n - 1 rounds, every rank sends one chunk to the next rank and
// receives one from the previous rank: in the first round it sends the chunk `first_sent`, and in every later round the chunk that it
// received in the round before. A round consists of several steps, in each of which one segment of a chunk is sent and one is received.
class RingPass {
 public:
  // `chunks` contains the range of each rank's chunk.
  RingPass(std::vector<Range> chunks, int64_t num_segments, int first_sent)
      : chunks_(std::move(chunks)), num_segments_(num_segments), first_sent_(first_sent) {}

  int64_t num_steps() const { return (std::ssize(chunks_) - 1) * num_segments_; }
  Range sent(int64_t step) const { return segment(first_sent_ - step / num_segments_, step % num_segments_); }
  Range received(int64_t step) const {
    return segment(first_sent_ - 1 - step / num_segments_, step % num_segments_);
  }

 private:
  Range segment(int64_t chunk, int64_t index) const {
    const int position = modulo(chunk, static_cast<int>(chunks_.size()));
    return part_of(chunks_[static_cast<size_t>(position)], index, num_segments_);
  }

  std::vector<Range> chunks_;
  int64_t num_segments_;
  int first_sent_;
};

int next_rank(const Transfer& transfer) {
  return modulo(transfer.rank() + 1, transfer.size());
}
int previous_rank(const Transfer& transfer) {
  return modulo(transfer.rank() - 1, transfer.size());
}

// Returns the TransferBuffer through which this rank sends the memory at `data` to another rank of the group, or receives into it.
TransferBuffer buffer_for(const Transfer& transfer, int rank, void* data, size_t bytes) {
  return {transfer.mesh, transfer.in_mesh(rank), data, bytes};
}

// Gathers all chunks of `data` on every rank, by passing them around a ring. Each rank initially has the chunk `own_chunk`.
void gather_chunks(const Transfer& transfer, uint64_t slot, std::span<std::byte> data, size_t element_bytes,
                   const std::vector<Range>& chunks, int64_t num_segments, int own_chunk) {
  const RingPass pass(chunks, num_segments, own_chunk);
  TransferBuffer to_next = buffer_for(transfer, next_rank(transfer), data.data(), data.size());
  TransferBuffer from_previous = buffer_for(transfer, previous_rank(transfer), data.data(), data.size());
  for (int64_t step = 0; step < pass.num_steps() + 2; ++step) {
    if (step >= 2) {
      if (pass.received(step - 2).size > 0) from_previous.wait_received(transfer.deadline);
      if (pass.sent(step - 2).size > 0) to_next.wait_sent(transfer.deadline);
    }
    if (step >= pass.num_steps()) continue;
    const Range incoming = pass.received(step);
    const Range outgoing = pass.sent(step);
    from_previous.receive(slot, bytes_of(incoming.begin, element_bytes),
                          bytes_of(incoming.size, element_bytes));
    to_next.send(slot, bytes_of(outgoing.begin, element_bytes), bytes_of(outgoing.size, element_bytes));
  }
}

// Defines how elements are added: the type of the sum, and the conversions from and to it.
template <typename T>
struct Addition {
  using Sum = T;
  static T to_sum(T value) { return value; }
  static T from_sum(T sum) { return sum; }
};
// Adds signed integers as unsigned ones, which wrap around on overflow, as the documentation of all_reduce_elements() says.
template <std::signed_integral T>
struct Addition<T> {
  using Sum = std::make_unsigned_t<T>;
  static Sum to_sum(T value) { return static_cast<Sum>(value); }
  static T from_sum(Sum sum) { return static_cast<T>(sum); }
};
template <>
struct Addition<BF16> {
  using Sum = float;
  static float to_sum(BF16 value) { return bf16_to_f32(value.bits); }
  static BF16 from_sum(float sum) { return {f32_to_bf16(sum)}; }
};
template <>
struct Addition<F16> {
  using Sum = float;
  static float to_sum(F16 value) { return f16_to_f32(value.bits); }
  static F16 from_sum(float sum) { return {f32_to_f16(sum)}; }
};

template <typename T>
void add_received(T* sums, const std::byte* received, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T other;
    std::memcpy(&other, received + bytes_of(i, sizeof(T)), sizeof(T));
    sums[i] = Addition<T>::from_sum(Addition<T>::to_sum(other) + Addition<T>::to_sum(sums[i]));
  }
}

// Divides the data for a direct exchange, in which each rank sums one part of the data, into blocks. Each block contains a
// limited number of elements of every rank's part, so that the received elements fit into the staging memory.
class DirectBlocks {
 public:
  DirectBlocks(std::vector<Range> parts, size_t element_bytes) : parts_(std::move(parts)) {
    const size_t slots = 2 * (parts_.size() - 1);
    const size_t slot_bytes =
        std::clamp(kStagingBytes / slots / kSlotAlignment * kSlotAlignment, kSlotAlignment, kSegmentBytes);
    per_rank_ = static_cast<int64_t>(slot_bytes / element_bytes);
  }

  int64_t num_blocks() const { return (largest_size(parts_) + per_rank_ - 1) / per_rank_; }
  int64_t slot_elements() const { return per_rank_; }
  // Returns the range of the elements that belong both to block `block` and to the part of rank `rank`.
  Range part(int64_t block, int rank) const {
    const Range part = parts_[static_cast<size_t>(rank)];
    const int64_t begin = std::min(part.size, block * per_rank_);
    return {.begin = part.begin + begin, .size = std::min(part.size - begin, per_rank_)};
  }

 private:
  static constexpr size_t kSlotAlignment = 64;
  std::vector<Range> parts_;
  int64_t per_rank_;
};

// Selects whether a rank receives the sums of all elements or only those of its own part.
enum class Sums : uint8_t { kAll, kOwn };

// The part of one rank in a sum by direct exchange. Block k + 1 is in transit while the elements of block k are added. `parts`
// contains the range of each rank's part of the data.
template <typename T>
class DirectReduction {
 public:
  DirectReduction(const Transfer& transfer, std::span<T> data, const std::vector<Range>& parts, Sums sums,
                  std::span<std::byte> staging)
      : transfer_(transfer),
        sums_(sums),
        rank_(transfer.rank()),
        size_(transfer.size()),
        data_(data),
        staging_(staging),
        blocks_(parts, sizeof(T)) {
    PLIMSOLL_CHECK(staging.size() >= bytes_of(2 * (size_ - 1) * blocks_.slot_elements(), sizeof(T)),
                   "the sum over {} ranks needs a staging buffer of {} bytes, but has {}", size_,
                   bytes_of(2 * (size_ - 1) * blocks_.slot_elements(), sizeof(T)), staging.size());
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) {
        peers_.emplace_back();
        continue;
      }
      const auto buffer = [&](auto memory) {
        return std::make_unique<TransferBuffer>(transfer.mesh, transfer.in_mesh(peer), memory.data(),
                                                memory.size_bytes());
      };
      peers_.push_back({.peer = buffer(data), .gathered = buffer(data), .staged = buffer(staging)});
    }
  }

  void run() {
    if (blocks_.num_blocks() > 0) begin_block(0);
    for (int64_t block = 0; block < blocks_.num_blocks(); ++block) {
      if (block + 1 < blocks_.num_blocks()) begin_block(block + 1);
      finish_block(block);
    }
  }

 private:
  struct Peer {
    std::unique_ptr<TransferBuffer> peer;      // sends elements of the part that the peer sums
    std::unique_ptr<TransferBuffer> gathered;  // sends this rank's sums and receives those of the peer
    std::unique_ptr<TransferBuffer> staged;    // receives the peer's elements of the part that this rank sums
  };

  size_t slot_offset(int64_t block, int peer) const {
    const int64_t index = (block % 2) * (size_ - 1) + (peer < rank_ ? peer : peer - 1);
    return bytes_of(index * blocks_.slot_elements(), sizeof(T));
  }

  void begin_block(int64_t block) {
    const Range own = blocks_.part(block, rank_);
    // In each step of this loop, no two ranks send to the same receiver, so that no rank receives from all others at the same time.
    for (int distance = 1; distance < size_; ++distance) {
      const int to = modulo(rank_ + distance, size_);
      const int from = modulo(rank_ - distance, size_);
      peers_[from].staged->receive(transfer_.slot, slot_offset(block, from), bytes_of(own.size, sizeof(T)));
      const Range part = blocks_.part(block, to);
      peers_[to].peer->send(transfer_.slot, bytes_of(part.begin, sizeof(T)), bytes_of(part.size, sizeof(T)));
    }
  }

  void finish_block(int64_t block) {
    const Range own = blocks_.part(block, rank_);
    for (int peer = 0; own.size > 0 && peer < size_; ++peer) {
      if (peer != rank_) peers_[peer].staged->wait_received(transfer_.deadline);
    }
    add_block(block, own);
    if (sums_ == Sums::kOwn) {
      for (int peer = 0; peer < size_; ++peer) {
        if (peer != rank_ && blocks_.part(block, peer).size > 0)
          peers_[peer].peer->wait_sent(transfer_.deadline);
      }
      return;
    }
    for (int distance = 1; distance < size_; ++distance) {
      const int to = modulo(rank_ + distance, size_);
      const int from = modulo(rank_ - distance, size_);
      const Range part = blocks_.part(block, from);
      // The sums of rank `from` are received into the memory from which this rank has sent its own elements to that rank. Gloo may still
      // read this memory, so wait until all of it is sent.
      if (part.size > 0) peers_[from].peer->wait_sent(transfer_.deadline);
      peers_[from].gathered->receive(transfer_.slot + 1, bytes_of(part.begin, sizeof(T)),
                                     bytes_of(part.size, sizeof(T)));
      peers_[to].gathered->send(transfer_.slot + 1, bytes_of(own.begin, sizeof(T)),
                                bytes_of(own.size, sizeof(T)));
    }
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      if (blocks_.part(block, peer).size > 0) peers_[peer].gathered->wait_received(transfer_.deadline);
      if (own.size > 0) peers_[peer].gathered->wait_sent(transfer_.deadline);
    }
  }

  // Adds the elements of all ranks in the order from rank 0 to rank n - 1, so that the sums do not depend on timing.
  void add_block(int64_t block, Range own) {
    constexpr int64_t kRow = 512;
    std::array<typename Addition<T>::Sum, kRow> sums;
    std::array<T, kRow> elements;
    for (int64_t begin = 0; begin < own.size; begin += kRow) {
      const int64_t count = std::min(kRow, own.size - begin);
      T* row = data_.data() + own.begin + begin;
      for (int rank = 0; rank < size_; ++rank) {
        const void* source = row;
        if (rank != rank_) {
          source = staging_.data() + slot_offset(block, rank) + bytes_of(begin, sizeof(T));
        }
        std::memcpy(elements.data(), source, bytes_of(count, sizeof(T)));
        if (rank == 0) {
          for (int64_t i = 0; i < count; ++i) sums[i] = Addition<T>::to_sum(elements[i]);
        } else {
          for (int64_t i = 0; i < count; ++i) sums[i] += Addition<T>::to_sum(elements[i]);
        }
      }
      for (int64_t i = 0; i < count; ++i) row[i] = Addition<T>::from_sum(sums[i]);
    }
  }

  Transfer transfer_;
  Sums sums_;
  int rank_;
  int size_;
  std::span<T> data_;
  std::span<std::byte> staging_;
  DirectBlocks blocks_;
  std::vector<Peer> peers_;
};

// Sums the chunks by passing partial sums around a ring. At the end, this rank has the complete
// sums of one chunk: the one whose number is `first_sent` + 1.
template <typename T>
void reduce_chunks(const Transfer& transfer, std::span<T> data, const std::vector<Range>& chunks,
                   int64_t num_segments, int first_sent, std::span<std::byte> staging) {
  PLIMSOLL_CHECK(staging.size() >= 2 * kSegmentBytes);
  const RingPass pass(chunks, num_segments, first_sent);
  TransferBuffer to_next = buffer_for(transfer, next_rank(transfer), data.data(), data.size_bytes());
  TransferBuffer from_previous =
      buffer_for(transfer, previous_rank(transfer), staging.data(), staging.size());
  const auto staged = [](int64_t step) { return static_cast<size_t>(step % 2) * kSegmentBytes; };
  // Two messages (segments of a chunk) are in transit at a time: a step begins before the messages of the previous step have arrived. This
  // is possible because each step sends a segment that was received at least two steps before.
  for (int64_t step = 0; step < pass.num_steps() + 2; ++step) {
    if (step >= 2) {
      const Range sums = pass.received(step - 2);
      if (sums.size > 0) from_previous.wait_received(transfer.deadline);
      add_received(data.data() + sums.begin, staging.data() + staged(step), sums.size);
      if (pass.sent(step - 2).size > 0) to_next.wait_sent(transfer.deadline);
    }
    if (step >= pass.num_steps()) continue;
    from_previous.receive(transfer.slot, staged(step), bytes_of(pass.received(step).size, sizeof(T)));
    const Range outgoing = pass.sent(step);
    to_next.send(transfer.slot, bytes_of(outgoing.begin, sizeof(T)), bytes_of(outgoing.size, sizeof(T)));
  }
}

template <typename T>
void ring_all_reduce(const Transfer& transfer, std::span<T> data, std::span<std::byte> staging) {
  const std::vector<Range> chunks = equal_parts(static_cast<int64_t>(data.size()), transfer.size());
  const int64_t num_segments =
      segments_per_chunk(static_cast<int64_t>(bytes_of(largest_size(chunks), sizeof(T))));
  reduce_chunks(transfer, data, chunks, num_segments, transfer.rank(), staging);
  gather_chunks(transfer, transfer.slot + 1, std::as_writable_bytes(data), sizeof(T), chunks, num_segments,
                next_rank(transfer));
}

// Returns true if the elements are summed by direct exchange, which is used for 16-bit elements and for small data.
template <typename T>
bool is_summed_directly(std::span<T> data) {
  constexpr bool kIsHalf = std::is_same_v<T, BF16> || std::is_same_v<T, F16>;
  return kIsHalf || data.size_bytes() <= kDirectBytes;
}

}  // namespace

template <typename T>
void all_reduce_elements(const Transfer& transfer, std::span<T> data, std::span<std::byte> staging) {
  if (!is_summed_directly(data)) return ring_all_reduce(transfer, data, staging);
  const std::vector<Range> parts = equal_parts(static_cast<int64_t>(data.size()), transfer.size());
  DirectReduction<T>(transfer, data, parts, Sums::kAll, staging).run();
}

template <typename T>
void reduce_scatter_elements(const Transfer& transfer, std::span<T> data, std::span<const int64_t> counts,
                             std::span<std::byte> staging) {
  const std::vector<Range> parts = parts_of_sizes(counts);
  if (is_summed_directly(data)) {
    DirectReduction<T>(transfer, data, parts, Sums::kOwn, staging).run();
    return;
  }
  const int64_t num_segments =
      segments_per_chunk(static_cast<int64_t>(bytes_of(largest_size(parts), sizeof(T))));
  // This rank sends the chunk of the previous rank first. The partial sums of its own part therefore arrive last, and this rank
  // completes them.
  reduce_chunks(transfer, data, parts, num_segments, previous_rank(transfer), staging);
}

template void all_reduce_elements<float>(const Transfer&, std::span<float>, std::span<std::byte>);
template void all_reduce_elements<double>(const Transfer&, std::span<double>, std::span<std::byte>);
template void all_reduce_elements<int32_t>(const Transfer&, std::span<int32_t>, std::span<std::byte>);
template void all_reduce_elements<int64_t>(const Transfer&, std::span<int64_t>, std::span<std::byte>);
template void all_reduce_elements<BF16>(const Transfer&, std::span<BF16>, std::span<std::byte>);
template void all_reduce_elements<F16>(const Transfer&, std::span<F16>, std::span<std::byte>);
template void reduce_scatter_elements<float>(const Transfer&, std::span<float>, std::span<const int64_t>,
                                             std::span<std::byte>);
template void reduce_scatter_elements<double>(const Transfer&, std::span<double>, std::span<const int64_t>,
                                              std::span<std::byte>);
template void reduce_scatter_elements<int32_t>(const Transfer&, std::span<int32_t>, std::span<const int64_t>,
                                               std::span<std::byte>);
template void reduce_scatter_elements<int64_t>(const Transfer&, std::span<int64_t>, std::span<const int64_t>,
                                               std::span<std::byte>);
template void reduce_scatter_elements<BF16>(const Transfer&, std::span<BF16>, std::span<const int64_t>,
                                            std::span<std::byte>);
template void reduce_scatter_elements<F16>(const Transfer&, std::span<F16>, std::span<const int64_t>,
                                           std::span<std::byte>);

void chain_broadcast(const Transfer& transfer, std::span<std::byte> bytes, int root) {
  const bool receives = transfer.rank() != root;
  const bool sends = next_rank(transfer) != root;
  TransferBuffer from_previous = buffer_for(transfer, previous_rank(transfer), bytes.data(), bytes.size());
  TransferBuffer to_next = buffer_for(transfer, next_rank(transfer), bytes.data(), bytes.size());
  const auto segment_bytes = [&](size_t offset) {
    return offset < bytes.size() ? std::min(kSegmentBytes, bytes.size() - offset) : 0;
  };
  if (receives) from_previous.receive(transfer.slot, 0, segment_bytes(0));
  for (size_t offset = 0; offset < bytes.size(); offset += kSegmentBytes) {
    if (receives) {
      from_previous.receive(transfer.slot, offset + kSegmentBytes, segment_bytes(offset + kSegmentBytes));
      from_previous.wait_received(transfer.deadline);
    }
    if (!sends) continue;
    to_next.send(transfer.slot, offset, segment_bytes(offset));
    if (offset > 0) to_next.wait_sent(transfer.deadline);
  }
  if (sends) to_next.wait_sent(transfer.deadline);
}

void ring_all_gather(const Transfer& transfer, std::span<std::byte> all) {
  const std::vector<Range> chunks = equal_parts(static_cast<int64_t>(all.size()), transfer.size());
  gather_chunks(transfer, transfer.slot, all, 1, chunks, segments_per_chunk(largest_size(chunks)),
                transfer.rank());
}

void ring_all_gather_parts(const Transfer& transfer, std::span<std::byte> all,
                           std::span<const int64_t> part_bytes) {
  const std::vector<Range> chunks = parts_of_sizes(part_bytes);
  gather_chunks(transfer, transfer.slot, all, 1, chunks, segments_per_chunk(largest_size(chunks)),
                transfer.rank());
}

void direct_all_to_all(const Transfer& transfer, std::span<const std::byte> mine,
                       std::span<std::byte> received) {
  const int rank = transfer.rank(), size = transfer.size();
  const size_t block = mine.size() / static_cast<size_t>(size);
  const auto offset = [&](int of_rank) { return static_cast<size_t>(of_rank) * block; };
  // Gloo reads the memory of a message that is sent, but declares it as memory that it may write.
  auto* sent = const_cast<std::byte*>(mine.data());
  std::vector<std::unique_ptr<TransferBuffer>> incoming, outgoing;
  for (int distance = 1; distance < size; ++distance) {
    const int to = modulo(rank + distance, size);
    const int from = modulo(rank - distance, size);
    incoming.push_back(std::make_unique<TransferBuffer>(transfer.mesh, transfer.in_mesh(from),
                                                        received.data(), received.size()));
    outgoing.push_back(
        std::make_unique<TransferBuffer>(transfer.mesh, transfer.in_mesh(to), sent, mine.size()));
    incoming.back()->receive(transfer.slot, offset(from), block);
    outgoing.back()->send(transfer.slot, offset(to), block);
  }
  std::memcpy(received.data() + offset(rank), mine.data() + offset(rank), block);
  for (const auto& buffer : incoming) buffer->wait_received(transfer.deadline);
  for (const auto& buffer : outgoing) buffer->wait_sent(transfer.deadline);
}

void dissemination_barrier(const Transfer& transfer) {
  const int rank = transfer.rank(), size = transfer.size();
  std::byte sent{};
  std::byte received{};
  for (int64_t distance = 1; distance < size; distance *= 2) {
    TransferBuffer from = buffer_for(transfer, modulo(rank - distance, size), &received, 1);
    TransferBuffer to = buffer_for(transfer, modulo(rank + distance, size), &sent, 1);
    from.receive(transfer.slot, 0, 1);
    to.send(transfer.slot, 0, 1);
    from.wait_received(transfer.deadline);
    to.wait_sent(transfer.deadline);
  }
}

}  // namespace plimsoll
