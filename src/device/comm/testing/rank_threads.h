// Runs the ranks of a run as threads of one process, for tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device/comm/communicator.h"
#include "device/comm/tcp_socket.h"
#include "plimsoll/error.h"
#include "plimsoll/free_port.h"

namespace plimsoll {

inline RankPlace place_on_this_host(int rank, int size, uint16_t port) {
  return {.rank = rank,
          .size = size,
          .local_rank = rank,
          .local_size = size,
          .store_host = "127.0.0.1",
          .store_port = port};
}

inline constexpr CommunicatorOptions kTestLimits = {.connect_timeout = std::chrono::seconds(60),
                                                    .operation_timeout = std::chrono::seconds(60)};

struct ErrorOfCall {
  ErrorCode code = ErrorCode::kInternal;
  std::string text;  // message of the error; empty if the call did not throw
};

template <typename Call>
ErrorOfCall error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return {.code = error.code(), .text = error.what()};
  }
  return {};
}

// Calls `body` on each rank. An Error of a rank fails the test.
template <typename Body>
void run_ranks(int size, const Body& body) {
  const uint16_t port = free_port();
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&body, port, rank, size] {
      const ErrorOfCall error =
          error_of([&] { body(*connect_ranks(place_on_this_host(rank, size, port), kTestLimits)); });
      EXPECT_EQ(error.text, "") << "on rank " << rank;
    });
  }
}

}  // namespace plimsoll
