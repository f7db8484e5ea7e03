// Tests send(), wait_sent() and receive() between pairs of ranks, and groups of ranks that run different numbers of operations.
// The ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/comm/testing/rank_threads.h"

namespace plimsoll {
namespace {

using Message = std::vector<std::byte>;

// Returns the content of a message between two ranks. Sizes range from zero bytes to several times
// the size up to which Gloo sends data in one piece.
Message message_between(int from, int to, int number) {
  constexpr size_t kSizes[] = {1, 70'001, 0, 3'000'001, 17};
  Message message(kSizes[static_cast<size_t>(number) % std::size(kSizes)]);
  for (size_t i = 0; i < message.size(); ++i)
    message[i] = static_cast<std::byte>((i * 7 + static_cast<size_t>(from * 31 + to * 101 + number)) % 251);
  return message;
}

// All ranks first send to all others, and only then receive. This test would never end if send() waited until the message is
// received.
TEST(CommunicatorMessages, ArriveInOrderWithoutWaitingForTheReceiver) {
  constexpr int kMessages = 5;
  for (const int size : {2, 4}) {
    run_ranks(size, [&](Communicator& ranks) {
      const int rank = ranks.rank();
      std::vector<std::vector<Message>> sent(static_cast<size_t>(size));
      for (int other = 0; other < size; ++other) {
        for (int number = 0; number < kMessages && other != rank; ++number)
          sent[static_cast<size_t>(other)].push_back(message_between(rank, other, number));
        for (const Message& message : sent[static_cast<size_t>(other)]) ranks.send(message, other);
      }
      for (int other = 0; other < size; ++other) {
        for (int number = 0; number < kMessages && other != rank; ++number) {
          const Message expected = message_between(other, rank, number);
          Message found(expected.size());
          ranks.receive(found, other);
          EXPECT_TRUE(found == expected) << "message " << number << " from " << other << " to " << rank;
        }
      }
      for (int other = 0; other < size; ++other) ranks.wait_sent(other);
      for (int other = 0; other < size; ++other) ranks.wait_sent(other);
    });
  }
}

// After wait_sent() has returned, the sender may change the memory of the message. The receiver must still get the old content.
TEST(CommunicatorMessages, AreReceivedBeforeTheWaitEnds) {
  run_ranks(2, [&](Communicator& ranks) {
    Message memory;
    for (int number = 0; number < 10; ++number) {
      const Message expected = message_between(0, 1, number);
      memory.resize(expected.size());
      if (ranks.rank() == 0) {
        std::ranges::copy(expected, memory.begin());
        ranks.send(memory, 1);
        ranks.wait_sent(1);
        std::ranges::fill(memory, std::byte{255});
      } else {
        ranks.receive(memory, 0);
        EXPECT_TRUE(memory == expected) << number;
      }
    }
  });
}

// Each group must count its own operations, because groups may run different numbers of operations, and ranks may exchange
// messages in between.
TEST(CommunicatorMessages, GroupsRunDifferentNumbersOfOperations) {
  run_ranks(4, [&](Communicator& ranks) {
    const int rank = ranks.rank();
    const auto pair = ranks.group(rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3});
    const auto across = ranks.group(rank % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3});
    const auto sum_in = [](Communicator& group, int value) {
      double sum = value;
      group.all_reduce({&sum, DType::kF64}, 1);
      return sum;
    };
    for (int i = 0; i < (rank < 2 ? 3 : 1); ++i)
      EXPECT_EQ(sum_in(*pair, rank + i), (rank < 2 ? 1 : 5) + 2 * i);
    if (across->rank() == 0) {
      const Message message = message_between(rank, rank + 2, 1);
      across->send(message, 1);
      across->wait_sent(1);
    } else {
      Message found(message_between(rank - 2, rank, 1).size());
      across->receive(found, 0);
      EXPECT_TRUE(found == message_between(rank - 2, rank, 1));
    }
    EXPECT_EQ(sum_in(*across, rank), rank % 2 == 0 ? 2 : 4);
    EXPECT_EQ(sum_in(ranks, rank), 6);
    ranks.barrier();
  });
}

}  // namespace
}  // namespace plimsoll
