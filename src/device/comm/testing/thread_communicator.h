// Ranks that are threads of one process, for tests of code that runs on several ranks. They exchange data in memory, and the
// sums are formed in double precision in the order of the ranks.
#pragma once

#include <algorithm>
#include <barrier>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/comm/communicator.h"

namespace plimsoll::testing {

class ThreadCommunicator final : public Communicator {
 public:
  // The memory that the ranks share. It has to outlive them.
  class Shared {
   public:
    explicit Shared(int num_ranks) : barrier_(num_ranks), data_(static_cast<size_t>(num_ranks)) {}

    // The largest number of bytes that were in transit (sent, but not yet received) in one channel between two ranks at the same time.
    size_t most_bytes_under_way = 0;

   private:
    friend class ThreadCommunicator;
    std::barrier<> barrier_;
    std::vector<std::span<const std::byte>> data_;  // for each rank, its data in the current operation
    std::mutex mutex_;                              // protects most_bytes_under_way and messages_
    std::condition_variable changed_;
    // messages that were sent but not yet received, by sender and by the channel of the receiver
    std::map<std::pair<int, RankChannel>, std::deque<std::span<const std::byte>>> messages_;
  };

  ThreadCommunicator(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_.data_.size()); }

  void all_reduce(View data, int64_t count) override {
    ++num_all_reduces;
    const auto bytes = static_cast<size_t>(count * dtype_bytes(data.dtype));
    std::vector<std::byte> sums(bytes);
    exchange({static_cast<const std::byte*>(data.data), bytes}, [&] {
      const View sum{sums.data(), data.dtype};
      for (int64_t i = 0; i < count; ++i) {
        double value = 0;
        for (const auto& of_rank : shared_.data_) value += ConstView{of_rank.data(), data.dtype}.load(i);
        sum.store(i, value);
      }
    });
    if (bytes > 0) std::memcpy(data.data, sums.data(), bytes);
  }
  // The parts of other ranks are undefined after this operation. This function sets their elements
  // to infinity, so that a test fails if it uses them.
  void reduce_scatter(View data, std::span<const int64_t> counts) override {
    ++num_reduce_scatters;
    int64_t count = 0;
    for (const int64_t part : counts) count += part;
    all_reduce(data, count);
    --num_all_reduces;
    int64_t i = 0;
    for (int of_rank = 0; of_rank < size(); ++of_rank) {
      for (int64_t k = 0; k < counts[static_cast<size_t>(of_rank)]; ++k, ++i) {
        if (of_rank != rank_) data.store(i, std::numeric_limits<double>::infinity());
      }
    }
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    std::vector<std::byte> copy(bytes.size());
    exchange(bytes, [&] {
      const auto& from = shared_.data_[static_cast<size_t>(root)];
      copy.assign(from.begin(), from.end());
    });
    std::copy(copy.begin(), copy.end(), bytes.begin());
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    exchange(mine, [&] {
      size_t at = 0;
      for (const auto& of_rank : shared_.data_) {
        std::copy(of_rank.begin(), of_rank.end(), all.begin() + static_cast<std::ptrdiff_t>(at));
        at += of_rank.size();
      }
    });
  }
  void all_to_all(std::span<const std::byte> mine, std::span<std::byte> received) override {
    ++num_all_to_alls;
    const size_t block = mine.size() / shared_.data_.size();
    exchange(mine, [&] {
      for (size_t from = 0; from < shared_.data_.size(); ++from) {
        const auto& sent = shared_.data_[from];
        PLIMSOLL_CHECK(sent.size() == mine.size(),
                       "all ranks must send equally many bytes, but one sends {} and another {}", sent.size(),
                       mine.size());
        const auto sent_block = sent.subspan(static_cast<size_t>(rank_) * block, block);
        std::copy(sent_block.begin(), sent_block.end(),
                  received.begin() + static_cast<std::ptrdiff_t>(from * block));
      }
    });
  }
  void barrier() override { shared_.barrier_.arrive_and_wait(); }
  void send(std::span<const std::byte> bytes, RankChannel to) override {
    const std::lock_guard lock(shared_.mutex_);
    auto& messages = shared_.messages_[{rank_, to}];
    messages.push_back(bytes);
    size_t under_way = 0;
    for (const auto& message : messages) under_way += message.size();
    shared_.most_bytes_under_way = std::max(shared_.most_bytes_under_way, under_way);
    shared_.changed_.notify_all();
  }
  // Waits for the receiver, which copies the message directly from the memory of the sender. If code under test changes the
  // message before calling wait_sent(), the receiver gets wrong data and the test fails.
  void wait_sent(RankChannel to) override {
    std::unique_lock lock(shared_.mutex_);
    shared_.changed_.wait(lock, [&] { return shared_.messages_[{rank_, to}].empty(); });
  }
  void receive(std::span<std::byte> bytes, RankChannel from) override {
    std::unique_lock lock(shared_.mutex_);
    auto& messages = shared_.messages_[{from.rank, {rank_, from.channel}}];
    shared_.changed_.wait(lock, [&] { return !messages.empty(); });
    PLIMSOLL_CHECK(messages.front().size() == bytes.size(),
                   "the sender sent {} bytes, but the receiver expects {}", messages.front().size(),
                   bytes.size());
    std::copy(messages.front().begin(), messages.front().end(), bytes.begin());
    messages.pop_front();
    shared_.changed_.notify_all();
  }
  // Does nothing, because a failure of one thread ends the whole test.
  void on_failure(std::function<void(const std::string&)>) override {}

  int num_all_reduces = 0;
  int num_reduce_scatters = 0;
  int num_all_to_alls = 0;

 private:
  // Makes the data of this rank visible to the other ranks, and calls `read` at a time at which the data of all ranks is visible.
  void exchange(std::span<const std::byte> data, const std::function<void()>& read) {
    shared_.data_[static_cast<size_t>(rank_)] = data;
    shared_.barrier_.arrive_and_wait();
    read();
    shared_.barrier_.arrive_and_wait();
  }

  Shared& shared_;
  int rank_;
};

// Runs `work` once per rank, each in its own thread, and waits for all of them.
inline void run_on_ranks(int num_ranks, const std::function<void(ThreadCommunicator&)>& work) {
  ThreadCommunicator::Shared shared(num_ranks);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(shared, rank);
      work(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace plimsoll::testing
