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
  // in each call. Requires: the buffers hold the batch. Errors: what a worker threw.
  bool next(const BatchBuffers& out, BatchInfo& info);

  // Bytes of the workers' slots, for the memory plan.
  int64_t slot_bytes() const;

 private:
  struct Slot {
    OwnedBatch batch;
    std::vector<int32_t> rows;
    int64_t num_rows = 0;
    BatchInfo info;
    bool ready = false;
  };

  void work();
  // The sampler's next batch into the slot. Requires: the lock is held, the sampler is not at the end.
  void claim(Slot& slot);
  void assemble(Slot& slot, const BatchBuffers& out);
  bool at_end() const;
  void stop();

  const Dataset& data_;
  Sampler sampler_;
  LoaderOptions options_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable may_claim_;
  std::condition_variable is_ready_;
  int64_t num_claimed_ = 0;
  int64_t num_consumed_ = 0;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> workers_;
};

}  // namespace plimsoll
