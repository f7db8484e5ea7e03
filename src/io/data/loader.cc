#include "io/data/loader.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace plimsoll {
Loader::Loader(const Dataset& data, Sampler sampler, const BatchLayout& layout, const LoaderOptions& options)
    : data_(data), sampler_(std::move(sampler)), capacity_(layout.capacity), options_(options) {
  PLIMSOLL_CHECK(options.num_workers >= 0 && options.prefetch_factor >= 1);
  PLIMSOLL_CHECK(sampler_.num_rows() == data.num_rows(),
                 "the sampler must have as many rows as the data set, but has {} instead of {}",
                 sampler_.num_rows(), data.num_rows());
  sampler_.seek(options.start);
  const auto num_slots =
      static_cast<size_t>(options.num_workers) * static_cast<size_t>(options.prefetch_factor);
  slots_.reserve(num_slots);
  for (size_t i = 0; i < num_slots; ++i) {
    slots_.push_back({.batch = make_micro_batch(layout), .ready = false, .failure = nullptr});
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

void Loader::claim(MicroBatch& batch) {
  // The next call of sampler_.next() invalidates the rows in `step`, so they are copied.
  Sampler::Step step = sampler_.next();
  batch.rows.assign(step.rows.begin(), step.rows.end());
  batch.info = {.position = step.position,
                .next = step.next,
                .num_labels = 0,
                .labels_in_step = data_.num_labels(step.step_rows, step.position.epoch),
                .contributes = options_.rank == 0};
  for (int64_t rank = 1; rank < options_.num_ranks && !step.last_in_epoch; ++rank) {
    step = sampler_.next();
    ++batch.info.batches_of_ranks;
    if (rank != options_.rank) continue;
    batch.rows.assign(step.rows.begin(), step.rows.end());
    batch.info.contributes = true;
  }
  batch.info.next = step.next;
  batch.info.last_in_epoch = step.last_in_epoch;
}

void Loader::assemble(MicroBatch& batch) const {
  const BatchSize size = size_of_batch(data_, batch.rows);
  if (size.tokens > capacity_.tokens || size.sequences > capacity_.sequences) {
    const DataPosition& position = batch.info.position;
    throw_error(
        ErrorCode::kUsage,
        "the batch at row {} of epoch {} has {} tokens in {} sequences, but the plan was made for at "
        "most {} in {}: it covers the epochs that --num_train_epochs or --max_steps request; set them "
        "to the length of the run",
        position.index, position.epoch, size.tokens, size.sequences, capacity_.tokens, capacity_.sequences);
  }
  assemble_batch(data_, batch.rows, batch);
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    // Waits until a buffer is free, and ends the thread if the loader stops or the data has ended. Workers take the batches in order, so no
    // batch is left when a worker finds the end of the data.
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
      claim(slot.batch);
      lock.unlock();
      assemble(slot.batch);
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

bool Loader::next(MicroBatch& out) {
  if (workers_.empty()) {
    if (at_end()) {
      return false;
    }
    const DataPosition here = sampler_.position();
    claim(out);
    try {
      assemble(out);
    } catch (...) {
      sampler_.seek(here);
      throw;
    }
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
  std::swap(slot.batch, out);
  slot.ready = false;
  ++num_consumed_;
  lock.unlock();
  may_claim_.notify_one();
  return true;
}

}  // namespace plimsoll
