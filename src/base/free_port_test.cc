// Tests the choice of free ports.
#include "plimsoll/free_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <set>
#include <vector>

namespace plimsoll {
namespace {

// Returns a listening socket at the port of the loopback interface, or -1.
int listener_at(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      listen(descriptor, 1) == 0)
    return descriptor;
  close(descriptor);
  return -1;
}

// It must be possible to listen at every returned port, and a port must not be returned again while a program listens there.
TEST(FreePort, IsNotInUse) {
  std::set<int> ports;
  std::vector<int> listeners;
  for (int i = 0; i < 50; ++i) {
    const int port = free_port(2);
    EXPECT_GE(port, 10000);
    EXPECT_LT(port + 1, 32768);
    for (const int one : {port, port + 1}) {
      EXPECT_TRUE(ports.insert(one).second) << one;
      listeners.push_back(listener_at(one));
      EXPECT_GE(listeners.back(), 0) << one;
    }
  }
  for (const int listener : listeners) close(listener);
}

}  // namespace
}  // namespace plimsoll
