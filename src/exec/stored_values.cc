// Reading and writing of persistent values (weights, optimizer states, gradients) by name. A value may be stored in two halves, divided
// among the ranks of one or two axes of the mesh, or stored by another stage of a pipeline.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/hash.h"
#include "base/split_f32.h"
#include "exec/executor.h"
#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {

void Executor::read(const std::string& name, int64_t offset, std::span<std::byte> bytes) {
  if (const int64_t owner = plan_.owner_of(name); owner >= 0)
    return read_of_stage(owner, name, offset, bytes);
  read_here(name, offset, bytes);
}

void Executor::read_of_stage(int64_t owner, const std::string& name, int64_t offset,
                             std::span<std::byte> bytes) {
  Communicator* stages = connections_.of(MeshAxis::kPipeline).ranks;
  PLIMSOLL_CHECK(
      stages != nullptr,
      "cannot read '{}': it belongs to another pipeline stage, and this rank is not connected to it", name);
  if (stages->rank() == owner) read_here(name, offset, bytes);
  stages->broadcast(bytes, static_cast<int>(owner));
}

void Executor::read_here(const std::string& name, int64_t offset, std::span<std::byte> bytes) {
  if (const auto split = plan_.split_weights.find(name); split != plan_.split_weights.end())
    return read_split(split->second, offset, bytes, &Executor::read_here);
  const PersistentBuffer& buffer = plan_.buffer(name);
  if (!buffer.is_whole()) return read_divided(buffer, offset, bytes);
  PLIMSOLL_CHECK(
      offset >= 0 && offset + std::ssize(bytes) <= buffer.bytes,
      "cannot access {0} bytes of '{2}' that begin at byte {1}: the range must be inside its {3} bytes "
      "and consist of whole elements",
      bytes.size(), offset, name, buffer.bytes);
  run_deferred_updates();
  backend_->read(buffer.space, buffer.offset + offset, bytes);
}

void Executor::write(const std::string& name, int64_t offset, std::span<const std::byte> bytes) {
  if (const auto split = plan_.split_weights.find(name); split != plan_.split_weights.end())
    return write_split(split->second, offset, bytes);
  if (plan_.is_pipelined() && !plan_.has_tensor(name)) {
    PLIMSOLL_CHECK(plan_.owner_of(name) >= 0,
                   "cannot write '{}': no pipeline stage has a tensor of this name", name);
    return;
  }
  const PersistentBuffer& buffer = plan_.buffer(name);
  run_deferred_updates();
  if (!buffer.is_whole()) {
    write_divided(buffer, offset, bytes);
  } else {
    PLIMSOLL_CHECK(
        offset >= 0 && offset + std::ssize(bytes) <= buffer.bytes,
        "cannot access {0} bytes of '{2}' that begin at byte {1}: the range must be inside its {3} "
        "bytes and consist of whole elements",
        bytes.size(), offset, name, buffer.bytes);
    backend_->write(buffer.space, buffer.offset + offset, bytes);
  }
  is_train_undisturbed_ = false;
  copies_are_stale_ = true;
  if (buffer.storage == Storage::kOptimizerState) updated_ = false;
}

namespace {

// A range of bytes of a value, or of the part of a value that one rank stores.
struct ByteRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  // Returns the bytes that both ranges contain.
  ByteRange overlap(const ByteRange& other) const {
    const int64_t first = std::max(begin, other.begin);
    return {first, std::max(first, std::min(end, other.end))};
  }
};

ByteRange checked_range(const PersistentBuffer& buffer, int64_t offset, int64_t bytes) {
  const int64_t width = dtype_bytes(buffer.type.dtype);
  PLIMSOLL_CHECK(offset >= 0 && offset + bytes <= buffer.whole_elements() * width && offset % width == 0 &&
                     bytes % width == 0,
                 "cannot access {0} bytes of '{2}' that begin at byte {1}: the range must be inside its {3} "
                 "bytes and consist of whole elements",
                 bytes, offset, buffer.name, buffer.whole_elements() * width);
  return {offset, offset + bytes};
}

// The part of a tensor-parallel rank consists of several ranges of the whole value, stored one
// after the other. Returns the bytes of this part that belong to `range` of the whole value.
ByteRange range_in_part(const PersistentBuffer& buffer, const ByteRange& range, int64_t tensor_rank) {
  const int64_t width = dtype_bytes(buffer.type.dtype);
  return {buffer.split->elements_before(range.begin / width, tensor_rank) * width,
          buffer.split->elements_before(range.end / width, tensor_rank) * width};
}

// Within `range` of the whole value, calls `use` for each contiguous run of bytes that a tensor-parallel
// rank stores, in ascending order. The arguments are the offset of the run in `range` and its size in bytes.
template <typename Use>
void for_each_run(const PersistentBuffer& buffer, const ByteRange& range, int64_t tensor_rank,
                  const Use& use) {
  const int64_t width = dtype_bytes(buffer.type.dtype);
  buffer.split->for_each_run(
      tensor_rank, range.begin / width, range.end / width, [&](int64_t first, int64_t elements) {
        use(static_cast<size_t>(first * width - range.begin), static_cast<size_t>(elements * width));
      });
}

// Returns the bytes that a data-parallel rank stores, as a range of the whole value or of the part of this tensor-parallel rank.
ByteRange slice_of_data_rank(const PersistentBuffer& buffer, int64_t data_rank) {
  const int64_t width = dtype_bytes(buffer.type.dtype), elements = buffer.part_elements();
  return {buffer.divided->first_of(elements, data_rank) * width,
          buffer.divided->end_of(elements, data_rank) * width};
}

}  // namespace

Communicator& Executor::owners_of(const PersistentBuffer& buffer, MeshAxis axis) const {
  Communicator* ranks = connections_.of(axis).ranks;
  PLIMSOLL_CHECK(ranks != nullptr,
                 "cannot access '{}': it is divided among ranks, and this one is not connected to the others",
                 buffer.name);
  return *ranks;
}

// Reads bytes of a value, or of this tensor-parallel rank's part of it. If data-parallel ranks have slices, each sends its own.
void Executor::read_slices(const PersistentBuffer& buffer, int64_t offset, std::span<std::byte> bytes) {
  if (!buffer.divided) return backend_->read(buffer.space, buffer.offset + offset, bytes);
  Communicator& ranks = owners_of(buffer, MeshAxis::kData);
  const ByteRange range{offset, offset + std::ssize(bytes)};
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const ByteRange slice = slice_of_data_rank(buffer, rank);
    const ByteRange own = slice.overlap(range);
    if (own.size() == 0) continue;
    const std::span<std::byte> piece =
        bytes.subspan(static_cast<size_t>(own.begin - offset), static_cast<size_t>(own.size()));
    if (rank == ranks.rank()) backend_->read(buffer.space, buffer.offset + own.begin - slice.begin, piece);
    ranks.broadcast(piece, rank);
  }
}

void Executor::read_divided(const PersistentBuffer& buffer, int64_t offset, std::span<std::byte> bytes) {
  const ByteRange range = checked_range(buffer, offset, std::ssize(bytes));
  run_deferred_updates();
  if (!buffer.split) return read_slices(buffer, offset, bytes);
  Communicator& ranks = owners_of(buffer, MeshAxis::kTensor);
  std::vector<std::byte> part;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const ByteRange in_part = range_in_part(buffer, range, rank);
    part.resize(static_cast<size_t>(in_part.size()));
    if (part.empty()) continue;
    if (rank == ranks.rank()) read_slices(buffer, in_part.begin, part);
    ranks.broadcast(part, rank);
    size_t at = 0;
    for_each_run(buffer, range, rank, [&](size_t first, size_t count) {
      std::memcpy(bytes.data() + first, part.data() + at, count);
      at += count;
    });
  }
}

Executor::OwnBytes Executor::share_of_stage(const std::string& name) const {
  // The ranks of a tensor-parallel group store the same bytes of this value, so only the first rank
  // of each group counts as owner of a share.
  const Communicator* group = connections_.of(MeshAxis::kTensor).ranks;
  if (group != nullptr && group->rank() > 0) return {};
  const ValueType type = plan_.type_of(name);
  const int64_t width = dtype_bytes(type.dtype), elements = type.shape.elements({});
  const Communicator* ranks = connections_.of(MeshAxis::kData).ranks;
  const int64_t rank = ranks == nullptr ? 0 : ranks->rank(), count = ranks == nullptr ? 1 : ranks->size();
  const int64_t share = (elements + count - 1) / count;
  return {.begin = std::min(elements, rank * share) * width,
          .end = std::min(elements, (rank + 1) * share) * width};
}

Executor::OwnBytes Executor::own_bytes_in_stage(const std::string& name, const SplitWeight& halves) const {
  // If the data-parallel ranks divide the lower 16-bit half of the weight, a rank can only provide the elements of its slice, although it
  // has the whole upper half.
  const PersistentBuffer& low = plan_.buffer(halves.remainder);
  if (!low.divided || low.split) return share_of_stage(name);
  const OwnBytes own = own_bytes(halves.remainder);
  return {.begin = 2 * own.begin, .end = 2 * own.end};
}

Executor::OwnBytes Executor::own_bytes(const std::string& name) const {
  if (plan_.is_pipelined()) {
    if (plan_.owner_of(name) != plan_.request.ranks.stage) return {};
    const auto split = plan_.split_weights.find(name);
    if (split != plan_.split_weights.end()) return own_bytes_in_stage(name, split->second);
    if (!plan_.buffer(name).divided) return share_of_stage(name);
  }
  if (const auto split = plan_.split_weights.find(name); split != plan_.split_weights.end()) {
    // The weight is stored as two 16-bit halves: each has 2 bytes per element, and the weight has 4. If the
    // data-parallel ranks divide only one of the halves, this rank owns the elements that it stores in both.
    const OwnBytes high = own_bytes(split->second.high), low = own_bytes(split->second.remainder);
    return {.begin = 2 * std::max(high.begin, low.begin), .end = 2 * std::min(high.end, low.end)};
  }
  const PersistentBuffer& buffer = plan_.buffer(name);
  PLIMSOLL_CHECK(!buffer.split,
                 "cannot return the contiguous slice of '{}' that this rank stores: a tensor-parallel group "
                 "divides it, and no rank has a contiguous slice",
                 name);
  if (!buffer.divided) return {.begin = 0, .end = buffer.whole_elements() * dtype_bytes(buffer.type.dtype)};
  const Communicator* data_ranks = connections_.of(MeshAxis::kData).ranks;
  const ByteRange slice = slice_of_data_rank(buffer, data_ranks == nullptr ? 0 : data_ranks->rank());
  // The ranks of a tensor-parallel group store the same slice, so only the first rank of the group counts as its owner.
  const Communicator* group = connections_.of(MeshAxis::kTensor).ranks;
  return {.begin = slice.begin, .end = group != nullptr && group->rank() > 0 ? slice.begin : slice.end};
}

void Executor::read_own(const std::string& name, int64_t offset, std::span<std::byte> bytes) {
  if (const auto split = plan_.split_weights.find(name); split != plan_.split_weights.end())
    return read_split(split->second, offset, bytes, &Executor::read_own);
  const PersistentBuffer& buffer = plan_.buffer(name);
  const OwnBytes own = own_bytes(name);
  if (!buffer.divided) return read_here(name, offset, bytes);
  PLIMSOLL_CHECK(offset >= own.begin && offset + std::ssize(bytes) <= own.end,
                 "cannot read {0} bytes of '{2}' that begin at byte {1}: this rank only stores the bytes "
                 "from {3} to {4}",
                 bytes.size(), offset, name, own.begin, own.end);
  run_deferred_updates();
  backend_->read(buffer.space, buffer.offset + offset - own.begin, bytes);
}

void Executor::write_divided(const PersistentBuffer& buffer, int64_t offset,
                             std::span<const std::byte> bytes) {
  const ByteRange range = checked_range(buffer, offset, std::ssize(bytes));
  if (buffer.storage == Storage::kWeight) {
    divided_writes_ += hash64(bytes) ^ hash64(fmt::format("{} {}", buffer.name, offset));
  }
  if (!buffer.split) return write_slice(buffer, offset, bytes);
  const int rank = owners_of(buffer, MeshAxis::kTensor).rank();
  const ByteRange in_part = range_in_part(buffer, range, rank);
  std::vector<std::byte> part;
  part.reserve(static_cast<size_t>(in_part.size()));
  for_each_run(buffer, range, rank, [&](size_t first, size_t count) {
    part.insert(part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(first),
                bytes.begin() + static_cast<std::ptrdiff_t>(first + count));
  });
  // If the range includes the end of the whole value, the padding at the end of this rank's part, if it has any, is written too.
  const int64_t width = dtype_bytes(buffer.type.dtype);
  if (range.end == buffer.whole_elements() * width)
    part.resize(static_cast<size_t>(buffer.part_elements() * width - in_part.begin));
  write_slice(buffer, in_part.begin, part);
}

// Writes bytes of a value, or of this rank's part if a tensor-parallel group divides the value. If data-parallel ranks store slices of
// it, writes only the bytes that belong to this rank's slice.
void Executor::write_slice(const PersistentBuffer& buffer, int64_t offset, std::span<const std::byte> bytes) {
  if (const PersistentBuffer* copy = whole_copy_of_slices(buffer)) write_copy(*copy, offset, bytes);
  ByteRange slice{0, buffer.part_elements() * dtype_bytes(buffer.type.dtype)};
  if (buffer.divided) slice = slice_of_data_rank(buffer, owners_of(buffer, MeshAxis::kData).rank());
  const ByteRange own = slice.overlap({offset, offset + std::ssize(bytes)});
  if (own.size() == 0) return;
  backend_->write(buffer.space, buffer.offset + own.begin - slice.begin,
                  bytes.subspan(static_cast<size_t>(own.begin - offset), static_cast<size_t>(own.size())));
}

const PersistentBuffer* Executor::whole_copy_of_slices(const PersistentBuffer& buffer) const {
  if (!buffer.divided) return nullptr;
  const auto pair = std::ranges::find(plan_.weight_copies, buffer.name, &WeightCopy::weight);
  if (pair == plan_.weight_copies.end()) return nullptr;
  const PersistentBuffer& copy = plan_.buffer(pair->copy);
  return copy.divided ? nullptr : &copy;
}

void Executor::write_copy(const PersistentBuffer& copy, int64_t offset, std::span<const std::byte> weight) {
  const int64_t first = offset / dtype_bytes(DType::kF32);
  const int64_t count = std::ssize(weight) / dtype_bytes(DType::kF32);
  const int64_t width = dtype_bytes(copy.type.dtype);
  std::vector<std::byte> rounded(static_cast<size_t>(count * width));
  copy_weights_cpu(
      {.weight = {weight.data(), DType::kF32}, .low = {rounded.data(), copy.type.dtype}, .n = count});
  backend_->write(copy.space, copy.offset + first * width, rounded);
}

void Executor::read_split(const SplitWeight& parts, int64_t offset, std::span<std::byte> whole,
                          ReadFunction read_half) {
  Halves halves(whole.size());
  PLIMSOLL_CHECK(
      offset % 4 == 0,
      "a read of a weight that is stored as two 16-bit halves must begin at a multiple of 4 bytes, but "
      "begins at byte {}",
      offset);
  (this->*read_half)(parts.high, offset / 2, std::as_writable_bytes(std::span(halves.high)));
  (this->*read_half)(parts.remainder, offset / 2, std::as_writable_bytes(std::span(halves.low)));
  for (size_t i = 0; i < halves.high.size(); ++i) {
    const float value = join_f32({halves.high[i], halves.low[i]});
    std::memcpy(whole.data() + 4 * i, &value, 4);
  }
}

void Executor::write_split(const SplitWeight& parts, int64_t offset, std::span<const std::byte> whole) {
  Halves halves(whole.size());
  PLIMSOLL_CHECK(offset % 4 == 0,
                 "a weight that is stored in two halves must be written from a multiple of 4 bytes on, but "
                 "byte {} is given",
                 offset);
  for (size_t i = 0; i < halves.high.size(); ++i) {
    float value = 0;
    std::memcpy(&value, whole.data() + 4 * i, 4);
    const SplitF32 split = split_f32(value);
    halves.high[i] = split.high;
    halves.low[i] = split.low;
  }
  write(parts.high, offset / 2, std::as_bytes(std::span(halves.high)));
  write(parts.remainder, offset / 2, std::as_bytes(std::span(halves.low)));
}

}  // namespace plimsoll
