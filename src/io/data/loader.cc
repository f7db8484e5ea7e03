#include "io/data/loader.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace plimsoll {
namespace {

// Copies one array of a batch. A slot has the size of the largest batch; the caller's buffer has the size of
// the bucket in which the batch runs.
template <typename T>
void copy_and_fill(std::span<const T> from, size_t used, std::span<T> to, T fill) {
  std::copy_n(from.begin(), used, to.begin());
  std::fill(to.begin() + static_cast<std::ptrdiff_t>(used), to.end(), fill);
}

void copy_batch(const BatchBuffers& from, const BatchInfo& info, int64_t label_width,
                const BatchBuffers& to) {
  const auto tokens = static_cast<size_t>(info.num_tokens);
  const auto sequences = static_cast<size_t>(info.num_sequences);
  PLIMSOLL_CHECK(
      tokens <= to.ids.size() && to.types.size() == to.ids.size() && to.positions.size() == to.ids.size(),
      "a batch of {} tokens in buffers of {}", tokens, to.ids.size());
  PLIMSOLL_CHECK(sequences < to.cu_seqlens.size() && sequences <= to.rows.size(),
                 "a batch of {} sequences in buffers of {}", sequences, to.rows.size());
  copy_and_fill<int32_t>(from.ids, tokens, to.ids, 0);
  copy_and_fill<int32_t>(from.types, tokens, to.types, 0);
  copy_and_fill<int32_t>(from.positions, tokens, to.positions, 0);
  copy_and_fill<int32_t>(from.cu_seqlens, sequences + 1, to.cu_seqlens, static_cast<int32_t>(tokens));
  copy_and_fill<int32_t>(from.rows, sequences, to.rows, -1);
  if (!to.classes.empty()) {
    PLIMSOLL_CHECK(sequences <= to.classes.size());
    copy_and_fill<int32_t>(from.classes, from.classes.empty() ? 0 : sequences, to.classes, kNoLabel);
  }
  if (!to.values.empty()) {
    const size_t values = from.values.empty() ? 0 : sequences * static_cast<size_t>(label_width);
    PLIMSOLL_CHECK(values <= to.values.size());
    copy_and_fill<float>(from.values, values, to.values, 0.0f);
  }
}

}  // namespace

Loader::Loader(const Dataset& data, Sampler sampler, const BatchCapacity& capacity,
               const LoaderOptions& options)
    : data_(data), sampler_(std::move(sampler)), capacity_(capacity), options_(options) {
  PLIMSOLL_CHECK(options.num_workers >= 0 && options.prefetch_factor >= 1);
  PLIMSOLL_CHECK(sampler_.num_rows() == data.num_rows(), "the sampler has {} rows, the data set {}",
                 sampler_.num_rows(), data.num_rows());
  sampler_.seek(options.start);
  const auto num_slots = static_cast<size_t>(options.num_workers * options.prefetch_factor);
  const auto max_rows = static_cast<size_t>(sampler_.options().batch_size);
  slots_.reserve(num_slots);
  for (size_t i = 0; i < num_slots; ++i) {
    slots_.push_back({OwnedBatch(capacity, OwnedBatch::label_kind(data), options.position_offset),
                      std::vector<int32_t>(max_rows), 0, BatchInfo(), false, nullptr});
  }
  try {
    for (int i = 0; i < options.num_workers; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& error) {
    stop();
    throw_error(ErrorCode::kDevice,
                "cannot start data loader thread {} of {}: {}\n  use a smaller "
                "--dataloader_num_workers",
                workers_.size() + 1, options.num_workers, error.what());
  }
}

Loader::~Loader() {
  stop();
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  may_claim_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
  workers_.clear();
}

bool Loader::at_end() const {
  return options_.num_epochs >= 0 && sampler_.position().epoch >= options_.num_epochs;
}

void Loader::claim(Slot& slot) {
  const Sampler::Step step = sampler_.next();
  std::copy(step.rows.begin(), step.rows.end(), slot.rows.begin());
  slot.num_rows = static_cast<int64_t>(step.rows.size());
  slot.info = BatchInfo();
  slot.info.position = step.position;
  slot.info.next = step.next;
  slot.info.last_in_epoch = step.last_in_epoch;
}

void Loader::require_room(std::span<const int32_t> rows, const DataPosition& position) const {
  int64_t tokens = 0;
  for (const int32_t row : rows) tokens += sampler_.lengths()[static_cast<size_t>(row)];
  const auto sequences = static_cast<int64_t>(rows.size());
  if (tokens <= capacity_.tokens && sequences <= capacity_.sequences) return;
  throw_error(ErrorCode::kUsage,
              "the batch at row {} of epoch {} has {} tokens in {} sequences, but the plan was made for at "
              "most {} in {}: it covers the epochs that --num_train_epochs or --max_steps request; set them "
              "to the length of the run",
              position.index, position.epoch, tokens, sequences, capacity_.tokens, capacity_.sequences);
}

void Loader::assemble(Slot& slot, const BatchBuffers& out) {
  const std::span<const int32_t> rows =
      std::span<const int32_t>(slot.rows).first(static_cast<size_t>(slot.num_rows));
  require_room(rows, slot.info.position);
  const BatchInfo counts = assemble_batch(data_, rows, out);
  slot.info.num_tokens = counts.num_tokens;
  slot.info.num_sequences = counts.num_sequences;
  slot.info.longest = counts.longest;
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    // Batches are claimed in order, so after the end of the data every later claim is at the end too.
    may_claim_.wait(lock, [this] {
      const bool has_slot = num_claimed_ < num_consumed_ + static_cast<int64_t>(slots_.size());
      return stop_ || at_end() || has_slot;
    });
    if (stop_ || at_end()) {
      return;
    }
    Slot& slot = slots_[static_cast<size_t>(num_claimed_) % slots_.size()];
    ++num_claimed_;
    try {
      claim(slot);
      lock.unlock();
      assemble(slot, slot.batch.buffers());
      lock.lock();
    } catch (...) {
      if (!lock.owns_lock()) {
        lock.lock();
      }
      slot.failure = std::current_exception();
    }
    slot.ready = true;
    is_ready_.notify_all();
    if (at_end()) {
      may_claim_.notify_all();
    }
  }
}

bool Loader::next(const BatchBuffers& out, BatchInfo& info) {
  if (workers_.empty()) {
    if (at_end()) {
      return false;
    }
    const DataPosition here = sampler_.position();
    const Sampler::Step step = sampler_.next();
    try {
      require_room(step.rows, step.position);
    } catch (...) {
      sampler_.seek(here);
      throw;
    }
    BatchBuffers buffers = out;
    buffers.position_offset = options_.position_offset;
    info = assemble_batch(data_, step.rows, buffers);
    info.position = step.position;
    info.next = step.next;
    info.last_in_epoch = step.last_in_epoch;
    return true;
  }
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[static_cast<size_t>(num_consumed_) % slots_.size()];
  is_ready_.wait(lock, [&] { return slot.ready || (at_end() && num_claimed_ == num_consumed_); });
  if (!slot.ready) {
    return false;
  }
  if (slot.failure != nullptr) {
    std::rethrow_exception(slot.failure);
  }
  // No worker accesses a ready slot, so the copy needs no lock.
  lock.unlock();
  copy_batch(slot.batch.buffers(), slot.info, data_.labels.width, out);
  info = slot.info;
  lock.lock();
  slot.ready = false;
  ++num_consumed_;
  lock.unlock();
  may_claim_.notify_one();
  return true;
}

}  // namespace plimsoll
