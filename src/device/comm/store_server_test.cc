#include "device/comm/store_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <ctime>
#include <optional>
#include <thread>
#include <vector>

#include "device/comm/store_client.h"
#include "device/comm/testing/rank_threads.h"
#include "plimsoll/free_port.h"

namespace plimsoll {
namespace {

constexpr std::chrono::milliseconds kStoreLimit = std::chrono::seconds(30);
constexpr std::string_view kHost = "127.0.0.1";

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TcpSocket raw_connection(const StoreServer& server) {
  return try_connect(std::string(kHost), server.port(), kStoreLimit).socket;
}

// Returns true if the server closes the connection within nine seconds, that is, before the time limit of ten seconds after which it closes
// every connection through which no rank has registered.
bool is_closed_by_server(const TcpSocket& socket) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + std::chrono::seconds(9);
  std::array<std::byte, 4096> buffer;
  while (socket.wait_readable(deadline)) {
    if (socket.receive_some(buffer) < 0) return true;
  }
  return false;
}

TEST(Store, AValueIsKnownToAllRanksWhenItExists) {
  const StoreServer server(std::string(kHost), 0, 2);
  std::jthread late([&] {
    StoreClient client(std::string(kHost), server.port(), 1, 2, kStoreLimit);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    client.set("color", bytes_of_text("green"), kStoreLimit);
    client.wait({"color", "shape"}, kStoreLimit);
  });
  StoreClient client(std::string(kHost), server.port(), 0, 2, kStoreLimit);
  const std::vector<std::byte> value = client.get("color", kStoreLimit);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(value.data()), value.size()), "green");
  client.set("shape", {}, kStoreLimit);
  EXPECT_TRUE(client.get("shape", kStoreLimit).empty());
  late.join();
}

// Limits the number of file descriptors that the process may open, and restores the limit in the destructor.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t limit) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit lower{.rlim_cur = limit, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  ~DescriptorLimit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// poll() fails if it gets more descriptors than the process may open. In this state the server must not occupy a core, and must
// still react to the request to stop.
TEST(Store, AServerThatCannotPollWaits) {
  std::optional<StoreServer> server(std::in_place, std::string(kHost), 0, 1);
  // No rank registers through this connection. The server calls poll() again and again, to close such a connection after a time limit.
  const TcpSocket unregistered = raw_connection(*server);
  const DescriptorLimit limit(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(cpu_seconds() - before, 0.25);
  server.reset();
}

TEST(Store, AValueThatNobodySetsEndsAtTheTimeLimit) {
  const StoreServer server(std::string(kHost), 0, 1);
  StoreClient client(std::string(kHost), server.port(), 0, 1, kStoreLimit);
  const ErrorOfCall error = error_of([&] { client.get("nothing", std::chrono::milliseconds(50)); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_NE(error.text.find("received no value for 'nothing' within 0.05 s"), std::string::npos)
      << error.text;
}

TEST(Store, AClientWaitsForItsServer) {
  const uint16_t port = free_port();
  std::jthread early([&] { StoreClient client(std::string(kHost), port, 1, 2, kStoreLimit); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const StoreServer server(std::string(kHost), port, 2);
  const StoreClient client(std::string(kHost), port, 0, 2, kStoreLimit);
  early.join();
}

TEST(Store, ARankMayRegisterAgainBeforeTheRunIsComplete) {
  const StoreServer server(std::string(kHost), 0, 2);
  {
    // Simulates a process of rank 1 that dies while it waits for rank 0.
    const TcpSocket died = raw_connection(server);
    std::vector<std::byte> message;
    append_store_message(message, StoreMessageKind::kRegister, 1, store_payload({1, 2}));
    EXPECT_TRUE(died.send_all(message, std::chrono::steady_clock::now() + kStoreLimit));
    EXPECT_TRUE(died.wait_readable(std::chrono::steady_clock::now() + kStoreLimit))
        << "the server knows the rank";
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::jthread again([&] { StoreClient client(std::string(kHost), server.port(), 1, 2, kStoreLimit); });
  StoreClient client(std::string(kHost), server.port(), 0, 2, kStoreLimit);
  again.join();
}

TEST(Store, GarbageIsClosedAndDisturbsNobody) {
  const StoreServer server(std::string(kHost), 0, 2);
  const SteadyTime deadline = std::chrono::steady_clock::now() + kStoreLimit;
  const TcpSocket silent = raw_connection(server);
  const TcpSocket web_browser = raw_connection(server);
  EXPECT_TRUE(web_browser.send_all(bytes_of_text("GET / HTTP/1.1\r\n\r\n"), deadline));
  EXPECT_TRUE(is_closed_by_server(web_browser));

  // The server must close the connection after each of these messages: one that is too large, a request before the registration,
  // and messages that are too short or contain a wrong number.
  std::vector<std::byte> huge;
  append_store_message(huge, StoreMessageKind::kRegister, 1, {});
  const uint32_t length = 0xffffffff;
  std::memcpy(huge.data() + huge.size() - sizeof length, &length, sizeof length);
  std::vector<std::byte> unregistered;
  append_store_message(unregistered, StoreMessageKind::kGet, 1, bytes_of_text("key"));
  std::vector<std::byte> too_short;
  append_store_message(too_short, StoreMessageKind::kRegister, 1, store_payload({1}));
  std::vector<std::byte> negative;
  append_store_message(negative, StoreMessageKind::kRegister, 1, store_payload({-1, 2}));
  for (const auto& message : {huge, unregistered, too_short, negative}) {
    const TcpSocket socket = raw_connection(server);
    EXPECT_TRUE(socket.send_all(message, deadline));
    EXPECT_TRUE(is_closed_by_server(socket));
  }
  const TcpSocket half_a_header = raw_connection(server);
  EXPECT_TRUE(half_a_header.send_all(std::span(huge).first(7), deadline));

  // Many connections that send nothing must not keep ranks from registering.
  std::vector<TcpSocket> many;
  for (int i = 0; i < 400; ++i) many.push_back(raw_connection(server));
  std::jthread other([&] { StoreClient client(std::string(kHost), server.port(), 1, 2, kStoreLimit); });
  StoreClient client(std::string(kHost), server.port(), 0, 2, kStoreLimit);
  client.set("key", bytes_of_text("value"), kStoreLimit);
  EXPECT_EQ(client.get("key", kStoreLimit).size(), 5u);
  other.join();
}

TEST(Store, AnotherProgramAtThePortIsRecognized) {
  const TcpSocket listener = listen_at(std::string(kHost), 0);
  std::jthread program([&] {
    const SteadyTime deadline = std::chrono::steady_clock::now() + kStoreLimit;
    if (!listener.wait_readable(deadline)) return;
    const TcpSocket socket(::accept(listener.fd(), nullptr, nullptr));
    socket.send_all(bytes_of_text("220 mail.example.org ESMTP\r\n"), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  const ErrorOfCall error =
      error_of([&] { StoreClient client(std::string(kHost), listener.local_port(), 1, 2, kStoreLimit); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_NE(error.text.find("another program uses the port"), std::string::npos) << error.text;
}

TEST(Store, AnUnknownHostIsNamed) {
  const ErrorOfCall error = error_of(
      [] { StoreClient client("no-such-host.invalid", 29500, 1, 2, std::chrono::milliseconds(100)); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_NE(error.text.find("no-such-host.invalid"), std::string::npos) << error.text;
}

TEST(TcpSocket, AddressesAreNumbersOfBothFamilies) {
  for (const std::string host : {"127.0.0.1", "::1"}) {
    TcpSocket listener;
    // skip IPv6 on a host without it
    if (error_of([&] { listener = listen_at(host, 0); }).text != "") continue;
    const ConnectAttempt attempt = try_connect(host, listener.local_port(), kStoreLimit);
    ASSERT_TRUE(attempt.socket) << attempt.failure;
    EXPECT_EQ(attempt.socket.local_address(), host);
    EXPECT_EQ(attempt.socket.peer_address(), host);
    EXPECT_TRUE(is_loopback(host));
  }
  // If a socket listens for IPv4 and IPv6, the address of an IPv4 connection must be returned as IPv4 and not in its IPv6 form.
  const TcpSocket everywhere = listen_at("0.0.0.0", 0);
  const ConnectAttempt attempt = try_connect("127.0.0.1", everywhere.local_port(), kStoreLimit);
  ASSERT_TRUE(attempt.socket) << attempt.failure;
  const TcpSocket accepted(::accept(everywhere.fd(), nullptr, nullptr));
  EXPECT_EQ(accepted.peer_address(), "127.0.0.1");
  EXPECT_EQ(host_and_port("::1", 5), "[::1]:5");
}

}  // namespace
}  // namespace plimsoll
