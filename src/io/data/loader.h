// Provides batches in order, prepared in advance by worker threads. Only one thread may call next(). The data
// set must outlive the loader.
//
// The order and the bits do not depend on the number of workers: a worker claims the next batch of the
// sampler under a lock and writes it into the slot with its number. The constructor allocates all memory;
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
  int num_workers = 0;          // 0: next() assembles the batch itself
  int prefetch_factor = 2;      // number of batches in advance per worker
  DataPosition start;           // position from which a run resumes
  int64_t num_epochs = -1;      // end before the epoch with this number, counted from 0; -1: never
  int32_t position_offset = 0;  // position of the first token of a sequence
};

class Loader {
 public:
  // `capacity` is the size of the largest batch to come (see batch_census.h) and determines the slots of the
  // workers. Requires: num_workers >= 0, prefetch_factor >= 1, and the sampler has the rows of the data set.
  // Errors: kDevice if the operating system cannot create a thread.
  Loader(const Dataset& data, Sampler sampler, const BatchCapacity& capacity, const LoaderOptions& options);
  // Stops the workers and waits for their end.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Writes the next batch into `out` and returns true, or returns false at the end. `out` may differ between
  // calls. Requires: the buffers have the size `capacity`. Errors: kUsage for a larger batch, thrown when it
  // is next and in every later call: it belongs to an epoch that the plan does not cover.
  bool next(const BatchBuffers& out, BatchInfo& info);

 private:
  struct Slot {
    OwnedBatch batch;
    std::vector<int32_t> rows;
    int64_t num_rows = 0;
    BatchInfo info;
    bool ready = false;
    std::exception_ptr failure;  // error of this batch, thrown when it is next
  };

  void work();
  // Takes the next batch of the sampler into the slot. Requires: the lock is held, the sampler is not at the
  // end.
  void claim(Slot& slot);
  void assemble(Slot& slot, const BatchBuffers& out);
  // Checks the size of a batch. Errors: kUsage if it has more tokens or rows than the capacity.
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
