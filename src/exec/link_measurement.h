// Checks the results of collective operations between the ranks of a run, and measures their times. Every rank calls the same functions
// with the same arguments. Not thread-safe. Errors: kDevice if a rank fails or a result is wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/comm/communicator.h"
#include "hardware/link_calibration.h"

namespace plimsoll {

// An implementation of collective operations, called an exchange, with an fp32 buffer on each rank. For operations that divide data among
// ranks, the buffer consists of one part per rank, in the order of the ranks, and all parts have the same size.
class LinkExchanger {
 public:
  virtual ~LinkExchanger() = default;
  virtual LinkExchange exchange() const = 0;
  // Returns true if this implementation has the operation.
  virtual bool has(Collective collective) const = 0;
  // Copy values to and from the beginning of the buffer.
  virtual void write(std::span<const float> values) = 0;
  virtual void read(std::span<float> values) = 0;
  // Runs the operation in place on the first `count` elements. Rank 0 is the root of a broadcast. Requires: the buffer has at least `count`
  // elements, and the part of each rank is a multiple of 16 bytes.
  virtual void run(Collective collective, int64_t count) = 0;
  // Runs the operation as run() does, possibly several times, and returns the milliseconds of one run on this rank. The time starts when
  // all ranks are ready.
  virtual double run_ms(Collective collective, int64_t count) = 0;
  // Stops using the memory of other ranks. All ranks must have called this before any of them destroys its object.
  virtual void disconnect() {}
};

// Returns the implementation for CPUs. `ranks` must outlive it.
std::unique_ptr<LinkExchanger> gloo_exchanger(Communicator& ranks, int64_t buffer_elements);
// Return the implementations for GPUs, with one GPU per rank. `uuid` identifies the GPU. `ranks` must outlive the
// result. Errors: those of connect_peers() and connect_gpus(); kDevice if the program was built without CUDA.
std::unique_ptr<LinkExchanger> mapped_memory_exchanger(Communicator& ranks, int gpu_ordinal,
                                                       const std::string& uuid, int64_t buffer_elements);
std::unique_ptr<LinkExchanger> nccl_exchanger(Communicator& ranks, int gpu_ordinal, const std::string& uuid,
                                              LinkExchange exchange, int64_t buffer_elements);

struct LinkBenchLimits {
  int64_t smallest_bytes = 1024;
  int64_t largest_bytes = int64_t{256} << 20;
  double seconds_per_size = 2;
};

// Returns the sizes that are measured: the smallest size times powers of 4, and the largest size.
std::vector<int64_t> measured_sizes(const LinkBenchLimits& limits);
// Returns the number of fp32 elements of a buffer that is sufficient for all sizes.
int64_t link_buffer_elements(const LinkBenchLimits& limits, int num_ranks);

// Returns the median and the spread of times. Requires: at least one time.
LinkPoint summarize_times(int64_t bytes, std::vector<double> milliseconds);
// Returns true if the times suffice: at least 8 of them, and a standard error of the median of at most 2 %, estimated from the quartiles
// (half their distance, divided by the square root of the number of times).
bool is_spread_known(const LinkPoint& point);

// Measures all operations of the exchange with increasing sizes. An operation is repeated with one size until is_spread_known() is true or
// the time limit for the size is reached, but at least 3 times. If 3 runs take longer than the limit, larger sizes are left out. Before the
// times are measured, the result of the operation is compared with the exact one. `progress` receives a text before each size. The caller
// sets the date of the result.
MeasuredLinks measure_links(LinkExchanger& exchanger, Communicator& ranks, const LinkBenchLimits& limits,
                            const std::function<void(const std::string&)>& progress);

}  // namespace plimsoll
