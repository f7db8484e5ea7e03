#include "device/comm/tcp_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/check.h"

namespace plimsoll {
namespace {

// A host that does not answer is recognized after kKeepAliveIdle + kKeepAliveProbes * kKeepAliveInterval seconds. A host whose processes
// are stopped is not affected, because its kernel answers.
constexpr int kKeepAliveIdle = 2;
constexpr int kKeepAliveInterval = 1;
constexpr int kKeepAliveProbes = 2;
constexpr int kListenBacklog = 1024;

std::string errno_text(int error) {
  return std::generic_category().message(error);
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

struct Resolved {
  AddressList list{nullptr, &::freeaddrinfo};
  std::string failure;
  bool unknown_host = false;
};

Resolved resolve(const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  Resolved resolved;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  resolved.list.reset(found);
  if (code != 0) {
    resolved.list.reset();
    resolved.failure = fmt::format("the name {} cannot be resolved: {}", host,
                                   code == EAI_SYSTEM ? errno_text(errno) : ::gai_strerror(code));
    resolved.unknown_host = code != EAI_AGAIN && code != EAI_SYSTEM;
  }
  return resolved;
}

void set_integer_option(int fd, int level, int name, int value) {
  // The error is ignored: if the system does not support an option, only the latency or the detection of failures gets worse.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));
}

std::string address_text(const sockaddr_storage& address, socklen_t length) {
  sockaddr_storage plain = address;
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 six = {};
    std::memcpy(&six, &address, sizeof six);
    if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
      sockaddr_in four = {};
      four.sin_family = AF_INET;
      std::memcpy(&four.sin_addr, six.sin6_addr.s6_addr + 12, sizeof four.sin_addr);
      plain = {};
      std::memcpy(&plain, &four, sizeof four);
      length = sizeof four;
    }
  }
  char text[NI_MAXHOST] = {};
  const void* pointer = &plain;
  if (::getnameinfo(static_cast<const sockaddr*>(pointer), length, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return {};
  }
  return text;
}

using NameFunction = int (*)(int, sockaddr*, socklen_t*);

bool read_name(NameFunction function, int fd, sockaddr_storage& address, socklen_t& length) {
  length = sizeof address;
  void* pointer = &address;
  return fd >= 0 && function(fd, static_cast<sockaddr*>(pointer), &length) == 0;
}

// Returns a socket that listens at the address. If the address cannot be used, returns an empty socket and sets `error` to errno.
TcpSocket listen_on(const sockaddr* address, socklen_t length, int family, int& error) {
  TcpSocket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket) {
    // A port whose last connections are still in the state TIME_WAIT can be used again at once.
    set_integer_option(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (family == AF_INET6) set_integer_option(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (::bind(socket.fd(), address, length) == 0 && ::listen(socket.fd(), kListenBacklog) == 0)
      return socket;
  }
  error = errno;
  return {};
}

TcpSocket listen_at_every_interface(uint16_t port, int& error) {
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  six.sin6_port = htons(port);
  const void* pointer = &six;
  TcpSocket socket = listen_on(static_cast<const sockaddr*>(pointer), sizeof six, AF_INET6, error);
  if (socket || error == EADDRINUSE || error == EACCES) return socket;
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_ANY);
  four.sin_port = htons(port);
  pointer = &four;
  return listen_on(static_cast<const sockaddr*>(pointer), sizeof four, AF_INET, error);
}

std::string text_of(const addrinfo& info) {
  sockaddr_storage address = {};
  std::memcpy(&address, info.ai_addr, std::min<size_t>(info.ai_addrlen, sizeof address));
  return address_text(address, info.ai_addrlen);
}

}  // namespace

int milliseconds_until(SteadyTime deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp(left, milliseconds(0), milliseconds(std::chrono::hours(1))).count());
}

TcpSocket& TcpSocket::operator=(TcpSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

TcpSocket::~TcpSocket() {
  if (fd_ >= 0) ::close(fd_);
}

void TcpSocket::shut_down() const {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

bool TcpSocket::send_all(std::span<const std::byte> bytes, SteadyTime deadline) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    pollfd wait = {.fd = fd_, .events = POLLOUT, .revents = 0};
    if (::poll(&wait, 1, milliseconds_until(deadline)) == 0 && std::chrono::steady_clock::now() >= deadline)
      return false;
  }
  return true;
}

int64_t TcpSocket::receive_some(std::span<std::byte> bytes) const {
  for (;;) {
    const ssize_t received = ::recv(fd_, bytes.data(), bytes.size(), 0);
    if (received > 0) return received;
    if (received == 0) return -1;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
  }
}

bool TcpSocket::wait_readable(SteadyTime deadline) const {
  for (;;) {
    pollfd wait = {.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, milliseconds_until(deadline)) > 0) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

std::string TcpSocket::local_address() const {
  sockaddr_storage address = {};
  socklen_t length = 0;
  return read_name(&::getsockname, fd_, address, length) ? address_text(address, length) : std::string();
}

std::string TcpSocket::peer_address() const {
  sockaddr_storage address = {};
  socklen_t length = 0;
  return read_name(&::getpeername, fd_, address, length) ? address_text(address, length) : std::string();
}

uint16_t TcpSocket::local_port() const {
  sockaddr_storage address = {};
  socklen_t length = 0;
  if (!read_name(&::getsockname, fd_, address, length)) return 0;
  // Read the port through the structure for IPv4 addresses even if the address is of IPv6, because the port is at the same offset in both
  // structures.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  sockaddr_in four = {};
  std::memcpy(&four, &address, sizeof four);
  return ntohs(four.sin_port);
}

void TcpSocket::set_connection_options() const {
  set_integer_option(fd_, IPPROTO_TCP, TCP_NODELAY, 1);
  set_integer_option(fd_, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_integer_option(fd_, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdle);
  set_integer_option(fd_, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveInterval);
  set_integer_option(fd_, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  // The system sends no keep-alive probes while data is unacknowledged. This option sets the same time limit for unacknowledged
  // data.
  set_integer_option(fd_, IPPROTO_TCP, TCP_USER_TIMEOUT,
                     1000 * (kKeepAliveIdle + kKeepAliveProbes * kKeepAliveInterval));
}

TcpSocket listen_at(const std::string& host, uint16_t port) {
  const Resolved resolved = resolve(host, port);
  bool all_loopback = resolved.list != nullptr;
  for (const addrinfo* info = resolved.list.get(); info != nullptr; info = info->ai_next) {
    all_loopback = all_loopback && is_loopback(text_of(*info));
  }
  int error = 0;
  TcpSocket socket;
  if (all_loopback) {
    for (const addrinfo* info = resolved.list.get(); info != nullptr && !socket; info = info->ai_next) {
      socket = listen_on(info->ai_addr, info->ai_addrlen, info->ai_family, error);
      if (error == EADDRINUSE) break;
    }
  } else {
    socket = listen_at_every_interface(port, error);
  }
  if (socket) return socket;
  if (error == EADDRINUSE) {
    throw_error(
        ErrorCode::kDevice,
        "Port {} of this host is in use, so rank 0 cannot serve the store at {}. Another run or a second "
        "process with rank 0 may use it: end that process or choose another port.",
        port, host_and_port(host, port));
  }
  throw_error(ErrorCode::kDevice,
              "Rank 0 cannot serve the store at {}: {}. Choose an address of this host and a free port.",
              host_and_port(host, port), errno_text(error));
}

ConnectAttempt try_connect(const std::string& host, uint16_t port, std::chrono::milliseconds limit) {
  ConnectAttempt attempt;
  const Resolved resolved = resolve(host, port);
  attempt.failure = resolved.failure;
  attempt.unknown_host = resolved.unknown_host;
  for (const addrinfo* info = resolved.list.get(); info != nullptr; info = info->ai_next) {
    TcpSocket socket(
        ::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol));
    if (!socket) {
      attempt.failure = errno_text(errno);
      continue;
    }
    if (::connect(socket.fd(), info->ai_addr, info->ai_addrlen) != 0) {
      if (errno != EINPROGRESS && errno != EINTR) {
        attempt.failure = errno_text(errno);
        continue;
      }
      const SteadyTime deadline = std::chrono::steady_clock::now() + limit;
      int ready = 0;
      do {
        pollfd wait = {.fd = socket.fd(), .events = POLLOUT, .revents = 0};
        ready = ::poll(&wait, 1, milliseconds_until(deadline));
      } while (ready < 0 && errno == EINTR);
      int error = ready == 0 ? ETIMEDOUT : errno;
      socklen_t length = sizeof error;
      if (ready > 0 && ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
      if (error != 0) {
        attempt.failure = errno_text(error);
        continue;
      }
    }
    // Detects a socket that is connected to itself: if no program listens at the port, the system may choose this very port for the
    // client's end.
    if (socket.local_port() == port && socket.local_address() == socket.peer_address()) {
      attempt.failure = errno_text(ECONNREFUSED);
      continue;
    }
    socket.set_connection_options();
    attempt.socket = std::move(socket);
    return attempt;
  }
  return attempt;
}

bool is_loopback(const std::string& numeric_address) {
  return numeric_address.starts_with("127.") || numeric_address == "::1";
}

std::string host_and_port(const std::string& host, uint16_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

}  // namespace plimsoll
