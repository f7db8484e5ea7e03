#include "exec/cuda/host_exchange.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"

namespace plimsoll {
namespace {

// While the host waits for outputs that a kernel copies, it looks again and again at HostCopyNumbers::ended, which the kernel writes after
// the outputs. After this number of looks it asks the driver for errors. A look takes a few tens of nanoseconds.
constexpr int kLooksPerQuery = 4096;

}  // namespace

HostExchange::HostExchange(const Plan& plan, CudaDevice& device, const ArenaMap& map, uint8_t fill)
    : device_(device), map_(map) {
  // In the arena, inputs come before outputs, and both are at the end of the persistent part, whose values are kept from run to run.
  const int64_t end = plan.persistent_bytes;
  all_ = update_ = outputs_ = {end, end};
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.space != Space::kDevice || buffer.name == kStagedInputs) continue;
    if (buffer.storage == Storage::kInput) all_.begin = std::min(all_.begin, buffer.offset);
    if (buffer.storage == Storage::kOutput) outputs_.begin = std::min(outputs_.begin, buffer.offset);
  }
  all_.begin = std::min(all_.begin, outputs_.begin);
  staged_begin_ = plan.buffer(std::string(kStagedInputs)).offset;
  update_ = {all_.begin, all_.begin};
  int64_t update_bytes = 0;
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.storage != Storage::kInput || !is_written_before_update(buffer.input.source)) continue;
    update_ = {update_bytes == 0 ? buffer.offset : std::min(update_.begin, buffer.offset),
               std::max(update_.end, buffer.offset + buffer.bytes)};
    update_bytes += buffer.bytes;
  }
  PLIMSOLL_CHECK(
      update_.end - update_.begin == update_bytes,
      "the inputs that the host writes before an update must be adjacent in the arena, but are not");
  const int64_t twin_bytes = all_.end - all_.begin, numbers_begin = (twin_bytes + 7) / 8 * 8;
  twin_ = PinnedMemory(numbers_begin + static_cast<int64_t>(sizeof(HostCopyNumbers)));
  std::memset(twin_.data(), fill, static_cast<size_t>(twin_bytes));
  numbers_ = new (twin_.data() + numbers_begin) HostCopyNumbers;
  const auto is_short = [](const Range& range) {
    const int64_t bytes = range.end - range.begin;
    return range.begin % 16 == 0 && bytes % 16 == 0 && bytes <= kMostHostCopyBytes;
  };
  has_short_copies_ = !plan.request.separate_buffers && std::ranges::all_of(batch_ranges(), is_short) &&
                      is_short(outputs_) && outputs_.begin < outputs_.end;
}

void HostExchange::fill_outputs(uint8_t fill) {
  map_.for_each_part(outputs_.begin, outputs_.end,
                     [&](int64_t, std::byte* data, int64_t bytes) { device_.fill(data, fill, bytes); });
}

std::byte* HostExchange::at(int64_t offset) const {
  PLIMSOLL_CHECK(offset >= all_.begin && offset < all_.end,
                 "the host can only access inputs and outputs of a program, but offset {} belongs to neither",
                 offset);
  return twin_.data() + (offset - all_.begin);
}

void HostExchange::before_host_writes(Inputs inputs) {
  // The copy of the previous inputs may still be in flight, so it is awaited before the host overwrites them.
  Sent& sent = sent_[index_of(inputs)];
  if (counts_copies_) wait_for_outputs();
  if (std::exchange(sent.is_in_flight, false)) (inputs == Inputs::kBatch ? staged_ : update_sent_).wait();
  sent.is_changed = true;
}

void HostExchange::before_host_reads() {
  if (outputs_stale_) fetch_outputs();
  wait_for_outputs();
}

void HostExchange::fetch_outputs() {
  wait_for_outputs();
  map_.for_each_part(outputs_.begin, outputs_.end, [&](int64_t offset, std::byte* data, int64_t bytes) {
    device_.copy_to_host(at(offset), data, bytes);
  });
  fetched_.record(device_.stream());
  outputs_stale_ = false;
  outputs_in_flight_ = true;
}

const std::byte* HostExchange::fetched(int64_t offset) {
  wait_for_outputs();
  return at(offset);
}

void HostExchange::wait_for_outputs() {
  if (!std::exchange(outputs_in_flight_, false)) return;
  std::exchange(counts_copies_, false) ? wait_for_copied_outputs() : fetched_.wait();
}

bool HostExchange::has_copied_outputs() const {
  return std::atomic_ref(numbers_->ended).load(std::memory_order_acquire) == numbers_->begun;
}

void HostExchange::wait_for_copied_outputs() const {
  while (true) {
    for (int look = 0; look < kLooksPerQuery; ++look) {
      if (has_copied_outputs()) return;
    }
    const cudaError_t state = cudaStreamQuery(device_.stream());
    if (state == cudaErrorNotReady) continue;
    PLIMSOLL_CUDA(state);
    PLIMSOLL_CHECK(has_copied_outputs(),
                   "the GPU has finished, but has not copied the outputs of the run to the host");
  }
}

void HostExchange::begin_short_run() {
  PLIMSOLL_CHECK(has_short_copies_ && !sent_[index_of(Inputs::kUpdate)].is_changed,
                 "kernels can only copy small inputs and outputs, and no inputs of an update");
  wait_for_outputs();
  sent_[index_of(Inputs::kBatch)].is_changed = false;
  std::atomic_ref(numbers_->begun).store(numbers_->begun + 1, std::memory_order_release);
  outputs_stale_ = false;
  outputs_in_flight_ = counts_copies_ = true;
}

void HostExchange::enqueue_inputs() {
  for (const Range& range : batch_ranges()) {
    if (range.begin < range.end)
      copy_from_host_cuda(map_.at(range.begin), at(range.begin), range.end - range.begin, device_.stream());
  }
}

void HostExchange::enqueue_outputs() {
  copy_to_host_cuda(at(outputs_.begin), map_.at(outputs_.begin), outputs_.end - outputs_.begin, numbers_,
                    device_.stream());
}

void HostExchange::begin_segment() {
  const bool is_idle = !outputs_stale_ && !outputs_in_flight_;
  outputs_stale_ = true;
  if (std::exchange(sent_[index_of(Inputs::kBatch)].is_changed, false))
    is_idle ? send_batch() : stage_batch();
  if (std::exchange(sent_[index_of(Inputs::kUpdate)].is_changed, false)) {
    map_.for_each_part(update_.begin, update_.end, [&](int64_t offset, std::byte* data, int64_t bytes) {
      device_.copy_to_device(data, at(offset), bytes);
    });
    update_sent_.record(device_.stream());
    sent_[index_of(Inputs::kUpdate)].is_in_flight = true;
  }
}

std::array<HostExchange::Range, 2> HostExchange::batch_ranges() const {
  return {Range{all_.begin, update_.begin}, Range{update_.end, outputs_.begin}};
}

// Copies a batch to the inputs. If the device is idle, as between two generated tokens, this is faster than copying through the
// staging buffer, which needs a second stream.
void HostExchange::send_batch() {
  for (const Range& range : batch_ranges()) {
    map_.for_each_part(range.begin, range.end, [&](int64_t offset, std::byte* data, int64_t bytes) {
      device_.copy_to_device(data, at(offset), bytes);
    });
  }
  staged_.record(device_.stream());
  sent_[index_of(Inputs::kBatch)].is_in_flight = true;
}

// Copies a batch to the staging buffer as soon as the previous batch has left it, and from there to the inputs when the ops
// have finished with the previous batch.
void HostExchange::stage_batch() {
  const std::array ranges = batch_ranges();
  taken_.hold_back(staging_.get());
  for (const Range& range : ranges) {
    if (range.begin == range.end) continue;
    PLIMSOLL_CUDA(cudaMemcpyAsync(staged_at(range.begin), at(range.begin),
                                  static_cast<size_t>(range.end - range.begin), cudaMemcpyHostToDevice,
                                  staging_.get()));
  }
  staged_.record(staging_.get());
  sent_[index_of(Inputs::kBatch)].is_in_flight = true;
  staged_.hold_back(device_.stream());
  for (const Range& range : ranges) {
    map_.for_each_part(range.begin, range.end, [&](int64_t offset, std::byte* data, int64_t bytes) {
      PLIMSOLL_CUDA(cudaMemcpyAsync(data, staged_at(offset), static_cast<size_t>(bytes),
                                    cudaMemcpyDeviceToDevice, device_.stream()));
    });
  }
  taken_.record(device_.stream());
}

}  // namespace plimsoll
