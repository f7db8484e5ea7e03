// Provides batches in order, prepared in advance by worker threads. Only one thread may call next(). The data
// set must outlive the loader.
//
// The order and the content of the batches do not depend on the number of workers: a worker claims the next batch of the sampler under a
// lock and writes it into the buffer that is reserved for the batch with this number. The constructor allocates all memory; next() and
// the workers allocate nothing.
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
  int num_workers = 0;      // number of worker threads; with 0, next() assembles the batches itself
  int prefetch_factor = 2;  // number of batches that each worker prepares in advance
  DataPosition start;       // position in the data at which to begin, when a run resumes
  int64_t num_epochs = -1;  // the batches end before this epoch, counted from 0; -1: they never end
  // The ranks of a run take the batches of an epoch in turn. At the end of an epoch there may be fewer batches left than ranks; see
  // BatchInfo::contributes.
  int64_t rank = 0;
  int64_t num_ranks = 1;
};

class Loader {
 public:
  // `layout` specifies the tensors of a batch and their sizes for the largest batch (see batch_census.h). Requires: num_workers >= 0,
  // prefetch_factor >= 1, and the sampler has the same rows as the data set. Errors: kDevice if the operating system cannot create a
  // thread.
  Loader(const Dataset& data, Sampler sampler, const BatchLayout& layout, const LoaderOptions& options);
  // Stops the worker threads and waits until they have ended.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Puts the next batch into `out` and returns true, or returns false at the end. With workers, `out` is swapped with a prepared batch,
  // so that nothing is copied. Requires: `out` was made for the same layout. Errors: kUsage for a batch larger than the layout's
  // capacity, thrown when this batch would be returned, and in every later call. This happens if the batch belongs to an epoch for which no
  // memory was planned.
  bool next(MicroBatch& out);

 private:
  struct Slot {
    MicroBatch batch;
    bool ready = false;
    std::exception_ptr failure;  // the error that occurred when this batch was prepared; next() throws it
  };

  void work();
  // Moves the sampler to the next batch and stores the rows and the position of the batch. Requires: the caller holds the lock, and the
  // sampler is not at the end.
  void claim(MicroBatch& batch);
  // Fills the tensors of a batch whose rows were stored by claim(). Errors: kUsage if the batch is larger than the layout's capacity.
  void assemble(MicroBatch& batch) const;
  bool at_end() const;
  void stop();

  const Dataset& data_;
  Sampler sampler_;
  BatchSize capacity_;
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
