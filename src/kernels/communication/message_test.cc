#include "kernels/communication/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "device/comm/testing/thread_communicator.h"
#include "kernels/communication/communication_catalog.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

std::vector<std::byte> message_of(int number, size_t bytes) {
  std::vector<std::byte> message(bytes);
  for (size_t i = 0; i < bytes; ++i)
    message[i] = static_cast<std::byte>((i * 7 + static_cast<size_t>(number) * 31) % 251);
  return message;
}

// Each message must arrive with the bytes that it had when its send began, although the sender changes its memory afterwards. Messages must
// arrive in the order of the sends.
template <typename Send, typename Receive>
void expect_messages_arrive(const Send& send, const Receive& receive) {
  constexpr int kMessages = 4;
  for (const size_t bytes : {size_t{1}, size_t{1000}, size_t{700'001}}) {
    testing::run_on_ranks(2, [&](testing::ThreadCommunicator& communicator) {
      std::vector<std::byte> data(bytes), room(bytes);
      for (int number = 0; number < kMessages; ++number) {
        if (communicator.rank() == 0) {
          data = message_of(number, bytes);
          send(SendArgs{.communicator = &communicator,
                        .x = ConstView{data.data(), DType::kU8},
                        .room = {room.data(), DType::kU8},
                        .bytes = static_cast<int64_t>(bytes),
                        .peer = 1});
          std::ranges::fill(data, std::byte{255});
        } else {
          receive(ReceiveArgs{.communicator = &communicator,
                              .y = {data.data(), DType::kU8},
                              .bytes = static_cast<int64_t>(bytes),
                              .peer = 0});
          EXPECT_EQ(data, message_of(number, bytes)) << number;
        }
      }
      if (communicator.rank() == 0) communicator.wait_sent(1);
    });
  }
}

TEST(Message, ArrivesUnchanged) {
  expect_messages_arrive(send_ref, receive_ref);
  FastRows(send_ref, receive_ref)
      .for_each_on_best_target(
          DType::kF32, AllReduceProblem{.ranks = 2},
          [](const auto& send, const auto& receive) { expect_messages_arrive(send, receive); });
}

}  // namespace
}  // namespace plimsoll::test
