#include "device/comm/store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "device/comm/blocked_signals.h"
#include "device/comm/store_message.h"
#include "device/comm/tcp_socket.h"

namespace plimsoll {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRegistrationLimit = std::chrono::seconds(10);
// The pause before the server tries again after an error of accept() or poll(), such as too many open files.
constexpr milliseconds kAcceptPause{100};
constexpr milliseconds kLastMessagesLimit{500};
constexpr size_t kMaxUnregistered = 256;
constexpr size_t kMaxPendingOutput = 64 * kMaxStorePayload;
constexpr size_t kMaxStoredBytes = 256 * kMaxStorePayload;
constexpr size_t kMaxPendingGets = 4096;

}  // namespace

class StoreServer::Loop {
 public:
  Loop(const std::string& host, uint16_t port, int size)
      : size_(size), listener_(listen_at(host, port)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_)
      throw_error(ErrorCode::kDevice,
                  "The system cannot create the eventfd that the store of rank 0 needs (errno {}).", errno);
  }

  uint16_t port() const { return listener_.local_port(); }

  void stop() const { static_cast<void>(::eventfd_write(wake_.fd(), 1)); }

  void run() {
    while (poll_once(next_timeout())) {
    }
    // When the server stops, it first sends the clients the message that rank 0 has ended, and waits until they close their
    // connections. If it closed them first, the system would reset a connection, and its client could lose that message.
    stops_ = true;
    std::erase_if(connections_, [](const Connection& connection) { return connection.rank < 0; });
    const SteadyTime deadline = std::chrono::steady_clock::now() + kLastMessagesLimit;
    while (!connections_.empty() && std::chrono::steady_clock::now() < deadline)
      poll_once(milliseconds_until(deadline));
    connections_.clear();
  }

 private:
  struct PendingGet {
    std::string key;
    uint32_t request;
  };

  struct Connection {
    TcpSocket socket;
    SteadyTime since;
    std::string address = {};
    std::vector<std::byte> input = {};
    std::vector<std::byte> output = {};
    std::vector<PendingGet> gets = {};
    int rank = -1;  // the rank that registered through this connection, or -1 before that
    uint32_t register_request = 0;
    bool has_left = false;
    bool closes_after_output = false;
    bool is_closed = false;
  };

  bool is_complete() const { return complete_; }

  int next_timeout() const {
    const bool waits_for_time =
        accept_paused_until_ > std::chrono::steady_clock::now() || num_unregistered() > 0;
    return waits_for_time ? static_cast<int>(kAcceptPause.count()) : -1;
  }

  size_t num_unregistered() const {
    return static_cast<size_t>(
        std::count_if(connections_.begin(), connections_.end(), [](const auto& c) { return c.rank < 0; }));
  }

  // Handles the events of one poll(). Returns false if the server is to stop.
  bool poll_once(int timeout_ms) {
    std::vector<pollfd> polls;
    // poll() ignores negative descriptors. A server that is already stopping does not watch for another request to stop.
    polls.push_back({.fd = stops_ ? -1 : wake_.fd(), .events = POLLIN, .revents = 0});
    const bool accepts = !stops_ && accept_paused_until_ <= std::chrono::steady_clock::now();
    polls.push_back({.fd = accepts ? listener_.fd() : -1, .events = POLLIN, .revents = 0});
    std::vector<Connection*> polled;
    for (Connection& connection : connections_) {
      const int events = connection.output.empty() ? POLLIN : POLLIN | POLLOUT;
      polls.push_back({.fd = connection.socket.fd(), .events = static_cast<short>(events), .revents = 0});
      polled.push_back(&connection);
    }
    if (::poll(polls.data(), polls.size(), timeout_ms) < 0) {
      if (errno == EINTR) return true;
      // poll() may fail again and again, for example if there are more connections than RLIMIT_NOFILE permits. Wait, so that the
      // loop does not occupy a core, and read the request to stop directly, because poll() cannot report it.
      std::this_thread::sleep_for(kAcceptPause);
      eventfd_t requests = 0;
      return stops_ || ::eventfd_read(wake_.fd(), &requests) != 0;
    }
    for (size_t i = 0; i < polled.size(); ++i) {
      const short happened = polls[i + 2].revents;
      if ((happened & ~POLLOUT) != 0) read_from(*polled[i]);
      if ((happened & POLLOUT) != 0) write_to(*polled[i]);
    }
    close_late_registrations();
    remove_closed();
    if (polls[1].revents != 0) accept_connections();
    return polls[0].revents == 0;
  }

  void accept_connections() {
    for (;;) {
      TcpSocket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
          accept_paused_until_ = std::chrono::steady_clock::now() + kAcceptPause;
        }
        return;
      }
      socket.set_connection_options();
      // If there are too many connections through which no rank has registered, close the oldest of them.
      if (num_unregistered() >= kMaxUnregistered) {
        connections_.erase(
            std::find_if(connections_.begin(), connections_.end(), [](const auto& c) { return c.rank < 0; }));
      }
      std::string address = socket.peer_address();
      connections_.push_back({.socket = std::move(socket),
                              .since = std::chrono::steady_clock::now(),
                              .address = std::move(address)});
    }
  }

  void close_late_registrations() {
    const SteadyTime now = std::chrono::steady_clock::now();
    for (Connection& connection : connections_) {
      if (connection.rank < 0 && now - connection.since > kRegistrationLimit) connection.is_closed = true;
    }
  }

  // Removes closed connections and reports that their ranks have ended. Sending a report may find that
  // another connection is closed, so the loop starts again from the first one after each removal.
  void remove_closed() {
    for (auto at = connections_.begin(); at != connections_.end();) {
      if (!at->is_closed) {
        ++at;
        continue;
      }
      const int rank = at->rank;
      // Once all ranks are registered, a closed connection means that the process of the rank died. There are two exceptions: the
      // rank has left, or rank 0 has ended and the clients therefore close their connections.
      const bool has_died = rank >= 0 && !at->has_left && is_complete() && !rank_0_ended_;
      connections_.erase(at);
      if (has_died) report_end(rank, RankEnd::Kind::kDied, {});
      at = connections_.begin();
    }
  }

  void read_from(Connection& connection) {
    std::array<std::byte, size_t{64} << 10> buffer;
    const int64_t received = connection.socket.receive_some(buffer);
    if (received < 0) connection.is_closed = true;
    if (received <= 0) return;
    connection.input.insert(connection.input.end(), buffer.begin(), buffer.begin() + received);
    while (!connection.is_closed && !connection.closes_after_output) {
      StoreParse parse = take_store_message(connection.input);
      if (parse.is_foreign || (parse.message && !handle(connection, *parse.message)))
        connection.is_closed = true;
      if (!parse.message) return;
    }
  }

  static void write_to(Connection& connection) {
    if (connection.is_closed) return;
    while (!connection.output.empty()) {
      const ssize_t sent =
          ::send(connection.socket.fd(), connection.output.data(), connection.output.size(), MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) connection.is_closed = true;
        return;
      }
      connection.output.erase(connection.output.begin(), connection.output.begin() + sent);
    }
    if (connection.closes_after_output) connection.is_closed = true;
  }

  static void answer(Connection& connection, StoreMessageKind kind, uint32_t request,
                     std::span<const std::byte> payload) {
    append_store_message(connection.output, kind, request, payload);
    if (connection.output.size() > kMaxPendingOutput) connection.is_closed = true;
    write_to(connection);
  }

  // Handles a message. Returns false if the message is not permitted; the caller then closes the connection.
  bool handle(Connection& connection, const StoreMessage& message) {
    if (message.kind == StoreMessageKind::kRegister)
      return connection.rank < 0 && register_rank(connection, message);
    if (connection.rank < 0) return false;
    switch (message.kind) {
      case StoreMessageKind::kSet:
        return set_value(connection, message);
      case StoreMessageKind::kGet:
        return get_value(connection, message);
      case StoreMessageKind::kListMissing:
        answer_missing(connection, message.request);
        return true;
      case StoreMessageKind::kLeave:
        leave(connection, message.text());
        return true;
      case StoreMessageKind::kAskPositions:
        return ask_positions(connection);
      case StoreMessageKind::kMyPosition:
        return pass_position(connection, message);
      default:
        return false;
    }
  }

  bool register_rank(Connection& connection, const StoreMessage& message) {
    const std::optional<int32_t> rank = message.number(0);
    const std::optional<int32_t> size = message.number(1);
    if (!rank || !size || *rank < 0) return false;
    // This rank may belong to a new run that starts while the current run is ending. Close its
    // connection, so that it tries to connect again later.
    if (is_complete() && has_end_) return false;
    connection.register_request = message.request;
    if (!refusal_.empty()) {
      refuse(connection);
      return true;
    }
    const uint64_t program = program_of(message);
    if (!program_) program_ = {*rank, program};
    if (program != program_->hash) {
      refuse_all(
          connection, ErrorCode::kUsage,
          fmt::format(
              "Rank {} at {} runs another build of the program than rank {}: the hashes are {} and {}. Start "
              "every process with the same program.",
              *rank, connection.address, program_->rank, to_hex(program), to_hex(program_->hash)));
      return true;
    }
    if (*size != size_ || *rank >= size_) {
      refuse_all(
          connection, ErrorCode::kUsage,
          fmt::format(
              "Rank {} at {} was started for {} ranks, but rank 0 for {}. Start every process with the same "
              "number of ranks.",
              *rank, connection.address, *size, size_));
      return true;
    }
    for (const Connection& other : connections_) {
      if (other.rank != *rank || other.is_closed) continue;
      refuse_all(
          connection, ErrorCode::kUsage,
          fmt::format(
              "Two processes claim rank {} of {}: one at {} and one at {}. Give each process its own rank.",
              *rank, size_, other.address, connection.address));
      return true;
    }
    connection.rank = *rank;
    answer(connection, StoreMessageKind::kWelcome, message.request, {});
    if (missing_ranks().empty()) complete();
    return true;
  }

  static uint64_t program_of(const StoreMessage& message) {
    const auto half = [&](size_t index) {
      return uint64_t{static_cast<uint32_t>(message.number(index).value_or(0))};
    };
    return half(2) | (half(3) << 32);
  }

  std::vector<int32_t> missing_ranks() const {
    std::vector<int32_t> missing;
    for (int rank = 0; rank < size_; ++rank) {
      const bool is_here = std::any_of(connections_.begin(), connections_.end(),
                                       [&](const auto& c) { return c.rank == rank && !c.is_closed; });
      if (!is_here) missing.push_back(rank);
    }
    return missing;
  }

  void answer_missing(Connection& connection, uint32_t request) {
    const std::vector<int32_t> missing = missing_ranks();
    answer(connection, StoreMessageKind::kMissing, request, std::as_bytes(std::span(missing)));
  }

  void complete() {
    complete_ = true;
    // Ranks on the host of rank 0 may be connected through the loopback interface, whose address is of no use to other hosts. They are
    // given the address by which a rank on another host reached the store.
    std::string outside;
    for (const Connection& connection : connections_) {
      const std::string address = connection.socket.local_address();
      if (connection.rank >= 0 && !is_loopback(address) && !is_loopback(connection.address))
        outside = address;
    }
    for (Connection& connection : connections_) {
      if (connection.rank < 0) continue;
      answer(connection, StoreMessageKind::kComplete, connection.register_request,
             store_payload({}, outside));
    }
  }

  void refuse(Connection& connection) {
    connection.closes_after_output = true;
    answer(connection, StoreMessageKind::kRefused, connection.register_request,
           store_payload({static_cast<int32_t>(refusal_code_)}, refusal_));
  }

  // Refuses the rank of the connection `newcomer` and, unless the run has already started, all other ranks as well.
  void refuse_all(Connection& newcomer, ErrorCode code, const std::string& text) {
    refusal_ = text;
    refusal_code_ = code;
    refuse(newcomer);
    for (Connection& connection : connections_) {
      if (!is_complete() && connection.rank >= 0 && !connection.closes_after_output) refuse(connection);
    }
    if (is_complete()) refusal_.clear();
  }

  bool set_value(Connection& connection, const StoreMessage& message) {
    const std::optional<int32_t> key_bytes = message.number(0);
    if (!key_bytes || *key_bytes < 0) return false;
    const size_t value_begin = sizeof(int32_t) + static_cast<size_t>(*key_bytes);
    if (value_begin > message.payload.size() || stored_bytes_ + message.payload.size() > kMaxStoredBytes)
      return false;
    stored_bytes_ += message.payload.size();
    const std::string key = message.text(sizeof(int32_t)).substr(0, static_cast<size_t>(*key_bytes));
    std::vector<std::byte>& value = values_[key];
    value.assign(message.payload.begin() + static_cast<std::ptrdiff_t>(value_begin), message.payload.end());
    answer(connection, StoreMessageKind::kDone, message.request, {});
    for (Connection& other : connections_) {
      std::erase_if(other.gets, [&](const PendingGet& get) {
        if (get.key != key) return false;
        answer(other, StoreMessageKind::kValue, get.request, value);
        return true;
      });
    }
    return true;
  }

  bool get_value(Connection& connection, const StoreMessage& message) {
    const auto found = values_.find(message.text());
    if (found != values_.end()) {
      answer(connection, StoreMessageKind::kValue, message.request, found->second);
      return true;
    }
    connection.gets.push_back({.key = message.text(), .request = message.request});
    return connection.gets.size() <= kMaxPendingGets;
  }

  void leave(Connection& connection, const std::string& failure) {
    connection.has_left = true;
    connection.closes_after_output = true;
    if (is_complete()) {
      report_end(connection.rank, failure.empty() ? RankEnd::Kind::kLeft : RankEnd::Kind::kFailed, failure);
    } else if (!failure.empty()) {
      refuse_all(connection, ErrorCode::kDevice, failure);
    }
    write_to(connection);
  }

  bool ask_positions(const Connection& asking) {
    if (!is_complete()) return false;
    for (Connection& connection : connections_) {
      if (connection.rank < 0 || connection.rank == asking.rank || connection.has_left) continue;
      answer(connection, StoreMessageKind::kWhere, 0, store_payload({asking.rank}));
    }
    return true;
  }

  // Passes the position of a rank (what it is doing) on to the rank that asked for it. That rank may have ended.
  bool pass_position(const Connection& from, const StoreMessage& message) {
    const std::optional<int32_t> asking = message.number(0);
    const std::optional<RankPosition> position = read_position(message);
    if (!asking || !position) return false;
    for (Connection& connection : connections_) {
      if (connection.rank != *asking || connection.has_left) continue;
      answer(connection, StoreMessageKind::kPosition, 0, position_payload(from.rank, *position));
    }
    return true;
  }

  void report_end(int rank, RankEnd::Kind kind, const std::string& text) {
    has_end_ = true;
    rank_0_ended_ = rank_0_ended_ || rank == 0;
    const std::vector<std::byte> payload = store_payload({rank, static_cast<int32_t>(kind)}, text);
    for (Connection& connection : connections_) {
      if (connection.rank < 0 || connection.rank == rank) continue;
      answer(connection, StoreMessageKind::kEnded, 0, payload);
    }
  }

  int size_;
  TcpSocket listener_;
  // an eventfd that wakes poll() when the server should stop; TcpSocket closes its descriptor
  TcpSocket wake_;
  bool stops_ = false;
  SteadyTime accept_paused_until_ = {};
  std::list<Connection> connections_;
  std::map<std::string, std::vector<std::byte>> values_;
  size_t stored_bytes_ = 0;
  // The hash of the program of the rank that registered first, with which those of all other ranks are compared.
  struct Program {
    int rank = 0;
    uint64_t hash = 0;
  };
  std::optional<Program> program_;
  bool complete_ = false;  // true once all ranks were registered at the same time
  bool has_end_ = false;   // true once a rank has ended after all were registered
  bool rank_0_ended_ = false;
  std::string refusal_;  // error because of which no more ranks can register; empty if none
  ErrorCode refusal_code_ = ErrorCode::kUsage;
};

StoreServer::StoreServer(const std::string& host, uint16_t port, int size)
    : loop_(std::make_unique<Loop>(host, port, size)) {
  const BlockedSignals blocked = BlockedSignals::all();
  thread_ = std::thread([loop = loop_.get()] { loop->run(); });
}

StoreServer::~StoreServer() {
  loop_->stop();
  thread_.join();
}

uint16_t StoreServer::port() const {
  return loop_->port();
}

}  // namespace plimsoll
