// Batches in order, assembled ahead by worker threads. One thread calls next(); the data set must outlive the
// loader.
//
// With any number of workers the order and the bits are the same: a worker claims the next batch of the
// sampler under a lock and writes it into the slot of its number. All memory is taken by the constructor;
// next() and the workers allocate nothing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "io/data/batch.h"
#include "io/data/dataset.h"
#include "io/data/sampler.h"

namespace plimsoll {

struct LoaderOptions {
  int num_workers = 0;          // 0: next() assembles by itself
  int prefetch_factor = 2;      // batches ahead for each worker
  DataPosition start;           // where a resumed run goes on
  int64_t num_epochs = -1;      // epochs are numbered from 0: end before this one; -1: never
  int32_t position_offset = 0;  // what the first token of a sequence has as its position
};

class Loader {
 public:
  // Capacity is that of the largest batch that will come (batch_census.h tells it), for the workers' slots.
  // Requires: num_workers >= 0, prefetch_factor >= 1; the sampler's rows are the data set's. Errors: kDevice
  // if the operating system has no thread left.
  Loader(const Dataset& data, Sampler sampler, const BatchCapacity& capacity, const LoaderOptions& options);
  // Stops and joins the workers.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Writes the next batch into `out` and returns true, or returns false at the end. `out` may be another one
  // in each call. Requires: the buffers hold `capacity`. Errors: kUsage for a batch that is larger, at its
  // turn and again at every call that follows: it is of an epoch that the plan does not cover.
  bool next(const BatchBuffers& out, BatchInfo& info);

 private:
  struct Slot {
    OwnedBatch batch;
    std::vector<int32_t> rows;
    int64_t num_rows = 0;
    BatchInfo info;
    bool ready = false;
    std::exception_ptr failure;  // of this batch, for its turn
  };

  void work();
  // The sampler's next batch into the slot. Requires: the lock is held, the sampler is not at the end.
  void claim(Slot& slot);
  void assemble(Slot& slot, const BatchBuffers& out);
  // Errors: kUsage for more tokens or rows than the capacity.
  void require_room(std::span<const int32_t> rows, const DataPosition& position) const;
  bool at_end() const;
  void stop();

  const Dataset& data_;
  Sampler sampler_;
  BatchCapacity capacity_;
  LoaderOptions options_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable may_claim_;
  std::condition_variable is_ready_;
  int64_t num_claimed_ = 0;
  int64_t num_consumed_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace plimsoll
