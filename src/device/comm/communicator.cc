#include "device/comm/communicator.h"

#include <cstring>
#include <numeric>

#include "base/check.h"
#include "device/comm/gloo_communicator.h"

namespace plimsoll {
namespace {

class SingleRank final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(View, int64_t) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    PLIMSOLL_CHECK(all.size() == mine.size(),
                   "all_gather on one rank needs an output of {} bytes, but the output has {} bytes",
                   mine.size(), all.size());
    if (!mine.empty()) std::memmove(all.data(), mine.data(), mine.size());
  }
  void all_to_all(std::span<const std::byte> mine, std::span<std::byte> received) override {
    all_gather(mine, received);
  }
  void barrier() override {}
  void on_failure(std::function<void(const std::string&)>) override {}
};

}  // namespace

void Communicator::reduce_scatter(View data, std::span<const int64_t> counts) {
  all_reduce(data, std::accumulate(counts.begin(), counts.end(), int64_t{0}));
}

void Communicator::all_gather_parts(std::byte* all, std::span<const int64_t> part_bytes) {
  std::byte* part = all;
  for (int rank = 0; rank < size(); ++rank) {
    const auto bytes = static_cast<size_t>(part_bytes[static_cast<size_t>(rank)]);
    broadcast({part, bytes}, rank);
    part += bytes;
  }
}

void Communicator::send(std::span<const std::byte> bytes, RankChannel to) {
  PLIMSOLL_CHECK(
      false,
      "cannot send {} bytes to rank {}: this communicator of {} ranks does not support send and receive",
      bytes.size(), to.rank, size());
}

void Communicator::wait_sent(RankChannel /*to*/) {}

void Communicator::receive(std::span<std::byte> bytes, RankChannel from) {
  PLIMSOLL_CHECK(
      false,
      "cannot receive {} bytes from rank {}: this communicator of {} ranks does not support send and receive",
      bytes.size(), from.rank, size());
}

std::unique_ptr<Communicator> Communicator::group(const std::vector<int>& members) {
  PLIMSOLL_CHECK(
      members.size() == 1 && members.front() == rank(),
      "this communicator can only form groups of one rank, but is asked for a group of {} of its {} ranks",
      members.size(), size());
  return std::make_unique<SingleRank>();
}

std::unique_ptr<Communicator> connect_ranks(const RankPlace& place, const CommunicatorOptions& options) {
  if (place.size < 1 || place.rank < 0 || place.rank >= place.size) {
    throw_error(ErrorCode::kUsage, "Rank {} of {} does not exist: ranks are numbered from 0 to {}.",
                place.rank, place.size, place.size - 1);
  }
  if (place.is_alone()) return std::make_unique<SingleRank>();
  if (place.store_host.empty() || place.store_port == 0) {
    throw_error(ErrorCode::kUsage,
                "A run of {} ranks needs the address and the port of rank 0, where the ranks meet: set "
                "MASTER_ADDR and MASTER_PORT.",
                place.size);
  }
  return connect_by_gloo(place, options);
}

}  // namespace plimsoll
