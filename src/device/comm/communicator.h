// Collective operations between the ranks of a run: each rank calls the same functions in the same order with the same
// sizes, and each call returns when its result is in the memory of this rank. One thread at a time uses an object.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rank_place.h"
#include "base/view.h"
#include "device/comm/rank_progress.h"

namespace plimsoll {

// Names another rank and one of the channels (numbered message queues) between that rank and this one. Messages of one channel arrive
// in the order in which they were sent; messages of different channels may be received in any order.
struct RankChannel {
  RankChannel(int of_rank, int64_t number = 0)
      : rank(of_rank), channel(number) {}  // NOLINT: a rank alone means channel 0
  int rank = 0;
  int64_t channel = 0;
  friend auto operator<=>(const RankChannel&, const RankChannel&) = default;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Replaces `count` elements of `data` by their sums over all ranks. Every rank receives the same bits; they depend on
  // the data, the number of ranks and `count`, not on timing. Types: f32, f64, i32, i64, and bf16 and f16, which are
  // summed in fp32 and rounded once. Errors: kDevice, naming the rank that failed, and the time limit if one passed.
  virtual void all_reduce(View data, int64_t count) = 0;
  // Like all_reduce(), but this rank receives only the sums of part rank(); the other parts of `data` are undefined afterwards.
  // `data` consists of one part per rank, in the order of the ranks; the part of rank r has counts[r] elements and may be empty. The
  // order of the sums may differ from that of all_reduce(). Requires: the same counts on each rank. Errors: as all_reduce(). Cost:
  // each rank sends (n - 1) / n times the data. A class that does not override this function calls all_reduce() and has its cost.
  virtual void reduce_scatter(View data, std::span<const int64_t> counts);
  // Copies the bytes of the rank `root` to every rank. Errors: as all_reduce().
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  // Writes the bytes of every rank into `all`, in the order of the ranks. Requires: all.size() == size() * mine.size(),
  // and `mine` has the same size on each rank. Errors: as all_reduce().
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // Completes `all`: this rank has part rank() and receives the parts of the other ranks. `all` consists of one part per rank, in the order
  // of the ranks; part r has part_bytes[r] bytes and may be empty. Requires: the same sizes on each rank. Errors: as all_reduce().
  virtual void all_gather_parts(std::byte* all, std::span<const int64_t> part_bytes);
  // Sends block r of `mine` to the rank r, and writes the block that the rank r sends to this rank into block r of `received`. Both consist
  // of size() blocks of equally many bytes and do not overlap. Requires: the same sizes on each rank. Errors: as all_reduce(). Cost: each
  // rank sends (n - 1) / n of the bytes of `mine`.
  virtual void all_to_all(std::span<const std::byte> mine, std::span<std::byte> received) = 0;
  // Returns when every rank has called it. Errors: as all_reduce().
  virtual void barrier() = 0;
  // Starts to send bytes to the rank `to`, which receives them by receive() with the same size, and returns at once. Only these two
  // ranks take part. The bytes must not change before wait_sent() has returned. Errors: as all_reduce().
  virtual void send(std::span<const std::byte> bytes, RankChannel to);
  // Waits until the rank has received everything that was sent to it in this channel. Returns at once if nothing was sent. Errors: as
  // all_reduce().
  virtual void wait_sent(RankChannel to);
  // Receives the next message from the rank `from`. Requires: the message has the size of `bytes`. Errors: as all_reduce().
  virtual void receive(std::span<std::byte> bytes, RankChannel from);
  // Returns a communicator between some of the ranks, in this order. This rank must be one of them. The ranks of a group call its functions
  // in the same order with the same sizes. A rank that is in several groups must call the functions of these groups in an order in which no
  // two ranks wait for each other. This object must outlive the result. Waits in operations of the group are recorded in progress() of this
  // object. The base class supports groups of one rank only.
  virtual std::unique_ptr<Communicator> group(const std::vector<int>& members);
  // Sets a function that is called, in another thread, when a rank has failed or its process has ended, with a text that names the rank. An
  // empty function removes the current one, and the call returns when no call of that function runs any more. The function must not throw
  // and must not use this object. This object and each of its groups have separate functions.
  virtual void on_failure(std::function<void(const std::string&)> report) = 0;

  // The position of this rank: the part of the run and the operation in which it waits. Error messages of this rank and of other ranks show
  // it. A rank that waits too long, in an operation or in another RankProgress::Wait, fails with a table of the positions of all ranks.
  RankProgress& progress() { return progress_; }

 private:
  RankProgress progress_;
};

struct CommunicatorOptions {
  std::chrono::milliseconds connect_timeout = std::chrono::minutes(5);  // time limit for connecting all ranks
  // Time limit of one collective operation. RankProgress::begin() may set a shorter limit for the operations of a training step.
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(30);
  uint64_t program = 0;  // a hash of the program, which has to be equal on all ranks
};

// Connects this rank with all others and returns when all are connected. For one rank it returns a communicator whose
// functions leave the data as it is. Errors: kDevice if a rank does not appear within the limit (the message names the
// missing ranks), or if the address of the store cannot be used; kUsage if two processes claim one rank, or ranks
// disagree about their number or run different programs.
std::unique_ptr<Communicator> connect_ranks(const RankPlace& place, const CommunicatorOptions& options = {});

}  // namespace plimsoll
