// The collective operations of a communicator, as calls of collectives.h. The derived class runs them over connections between all ranks,
// or between some of them. Internal to src/device/comm. One thread at a time uses an object.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "device/comm/collectives.h"
#include "device/comm/communicator.h"

namespace plimsoll {

class GlooOperations : public Communicator {
 public:
  void all_reduce(View data, int64_t count) override;
  void reduce_scatter(View data, std::span<const int64_t> counts) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void all_gather_parts(std::byte* all, std::span<const int64_t> part_bytes) override;
  void all_to_all(std::span<const std::byte> mine, std::span<std::byte> received) override;
  void barrier() override;

 protected:
  using Operation = std::function<void(const Transfer&)>;
  // Runs an operation, which is called `what` in error messages. Errors: kDevice, naming the rank that failed.
  virtual void run(const std::string& what, const Operation& operation, RankProgress::Kind kind) = 0;
  void run(const std::string& what, const Operation& operation) {
    run(what, operation, RankProgress::Kind::kAllRanks);
  }
  // Returns kStagingBytes of memory, which one operation at a time uses.
  virtual std::span<std::byte> staging() = 0;
};

}  // namespace plimsoll
