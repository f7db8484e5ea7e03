#include "plimsoll/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "base/check.h"

namespace plimsoll {
namespace {

constexpr int kFirstPort = 10000;
constexpr int kEndPort = 32768;
constexpr int kMostAttempts = 1000;

// A port counts as free only if it is free at all network interfaces, because a program may listen at one of them.
bool is_free(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool is_bound = bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(listener);
  return is_bound;
}

}  // namespace

uint16_t free_port(int count) {
  PLIMSOLL_CHECK(count >= 1, "the number of ports must be at least 1, but is {}", count);
  std::random_device random;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const auto num_places = static_cast<unsigned>(kEndPort - kFirstPort - count + 1);
    const int first = kFirstPort + static_cast<int>(random() % num_places);
    int num_free = 0;
    while (num_free < count && is_free(first + num_free)) ++num_free;
    if (num_free == count) return static_cast<uint16_t>(first);
  }
  throw_error(
      ErrorCode::kDevice,
      "this host has no free TCP port from {} to {} for the ranks of a run; see which programs listen "
      "(ss -ltn) and end some",
      kFirstPort, kEndPort - 1);
}

}  // namespace plimsoll
