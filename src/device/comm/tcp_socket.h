// TCP sockets of the rendezvous store (store_server.h), by POSIX calls: listening, connecting with a time limit, and the numeric addresses
// of both ends. IPv4 and IPv6. Every descriptor is closed by exec(), and no call raises SIGPIPE. TcpSocket owns its descriptor; one thread
// at a time uses it, except for shut_down().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace plimsoll {

using SteadyTime = std::chrono::steady_clock::time_point;

// Returns the milliseconds until `deadline`, at least 0 and at most one hour, in the form that poll() takes.
int milliseconds_until(SteadyTime deadline);

class TcpSocket {
 public:
  TcpSocket() = default;
  explicit TcpSocket(int fd) : fd_(fd) {}
  TcpSocket(TcpSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  TcpSocket& operator=(TcpSocket&& other) noexcept;
  ~TcpSocket();

  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  // Ends both directions of the connection: reads and writes of other threads return. The descriptor stays open.
  void shut_down() const;

  // Sends all bytes of a non-blocking socket. Returns false if the connection closed or the deadline passed.
  bool send_all(std::span<const std::byte> bytes, SteadyTime deadline) const;
  // Receives at most bytes.size() bytes of a non-blocking socket and returns their number: 0 if nothing arrived, -1 if
  // the connection closed or failed.
  int64_t receive_some(std::span<std::byte> bytes) const;
  // Returns true if bytes, or the end of the connection, arrived before the deadline.
  bool wait_readable(SteadyTime deadline) const;

  // Return the address of this end and of the other end as text, such as "10.0.0.1" or "fe80::1%eth0", without the port. An IPv4 address
  // that is mapped into IPv6 is returned as IPv4. Empty if the socket is not connected.
  std::string local_address() const;
  std::string peer_address() const;
  uint16_t local_port() const;

  // Sets the options that every connection of the store uses: small messages are sent without delay, and a host that stops
  // answering is noticed after 4 seconds.
  void set_connection_options() const;

 private:
  int fd_ = -1;
};

// Returns a non-blocking socket that listens at `port`. If all addresses of `host` are loopback addresses, it accepts connections
// from this host only. Otherwise it listens at every network interface, because the host itself may resolve the name to a
// different address than other hosts do. Errors: kDevice, naming the port and the remedy.
TcpSocket listen_at(const std::string& host, uint16_t port);

struct ConnectAttempt {
  TcpSocket socket;     // a non-blocking socket; empty if the attempt failed
  std::string failure;  // reason of the failure, such as "Connection refused"
  bool unknown_host = false;
};
// Tries each address of `host` once, for at most `limit` per address.
ConnectAttempt try_connect(const std::string& host, uint16_t port, std::chrono::milliseconds limit);

// Returns true for 127.0.0.0/8 and ::1.
bool is_loopback(const std::string& numeric_address);
// Returns "host:port", with brackets around an IPv6 address.
std::string host_and_port(const std::string& host, uint16_t port);

}  // namespace plimsoll
