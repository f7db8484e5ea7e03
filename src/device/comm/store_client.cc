#include "device/comm/store_client.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "device/comm/blocked_signals.h"

namespace plimsoll {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRetry{20};
constexpr milliseconds kLongestRetry{500};
constexpr milliseconds kConnectLimit = std::chrono::seconds(5);
// The time limit for resolving a host name. A name may become known only shortly after the processes started, but a misspelled
// name should be reported before the much longer time limit for connecting has passed.
constexpr milliseconds kUnknownHostLimit = std::chrono::seconds(10);
constexpr milliseconds kAnswerLimit = std::chrono::seconds(2);
constexpr milliseconds kLeaveLimit = std::chrono::seconds(1);

SteadyTime after(milliseconds limit) {
  return std::chrono::steady_clock::now() + limit;
}

std::string seconds_text(milliseconds limit) {
  return fmt::format("{:g} s", static_cast<double>(limit.count()) / 1000.0);
}

// Returns "Rank 2" or "Ranks 2, 3 and 5".
std::string rank_list(const std::vector<int32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "Rank " : "Ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

[[noreturn]] void throw_refusal(const StoreMessage& message) {
  const int32_t code = message.number(0).value_or(0);
  throw Error(code == static_cast<int32_t>(ErrorCode::kUsage) ? ErrorCode::kUsage : ErrorCode::kDevice,
              message.text(sizeof(int32_t)));
}

RankEnd read_rank_end(const StoreMessage& message) {
  return {.rank = message.number(0).value_or(0),
          .kind = static_cast<RankEnd::Kind>(message.number(1).value_or(0)),
          .text = message.text(2 * sizeof(int32_t))};
}

}  // namespace

StoreClient::StoreClient(std::string host, uint16_t port, int rank, int size, milliseconds limit,
                         uint64_t program)
    : host_(std::move(host)), port_(port), rank_(rank), size_(size), program_(program) {
  const SteadyTime deadline = after(limit);
  const SteadyTime host_deadline = after(std::min(limit, kUnknownHostLimit));
  milliseconds pause = kFirstRetry;
  for (;;) {
    ConnectAttempt attempt =
        try_connect(host_, port_, std::min(kConnectLimit, milliseconds(milliseconds_until(deadline))));
    last_failure_ = attempt.failure;
    if (attempt.socket && register_on(std::move(attempt.socket), deadline) == Attempt::kComplete) return;
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now >= deadline) break;
    if (attempt.unknown_host && now >= host_deadline) {
      throw_error(ErrorCode::kDevice, "Rank {} of {} cannot reach the store: {}.", rank_, size_,
                  last_failure_);
    }
    std::this_thread::sleep_for(std::min(pause, milliseconds(milliseconds_until(deadline))));
    pause = std::min(2 * pause, kLongestRetry);
  }
  report_missing_ranks(limit);
}

StoreClient::~StoreClient() {
  leave({});
  // Wait until the server has handled the message of leave() and closed the connection. If this client closed the connection first, with
  // unread messages of the server, the system would reset the connection, and the server could lose the message of leave().
  if (watcher_.joinable()) {
    {
      std::unique_lock lock(mutex_);
      stops_ = true;
      watch_changed_.notify_all();
      watch_changed_.wait_for(lock, kLeaveLimit, [&] { return connection_ended_; });
    }
    socket_.shut_down();
    watcher_.join();
  } else if (socket_) {
    try {
      const SteadyTime deadline = after(kLeaveLimit);
      while (next_message(deadline)) {
      }
    } catch (const Error&) {
      // The send fails if another program listens at the port. That program does not need to know that this rank leaves.
    }
  }
}

StoreClient::Attempt StoreClient::register_on(TcpSocket socket, SteadyTime deadline) {
  socket_ = std::move(socket);
  input_.clear();
  is_closed_ = false;
  was_welcomed_ = false;
  send(StoreMessageKind::kRegister, next_request_++,
       store_payload({rank_, size_, static_cast<int32_t>(program_ & 0xffffffffu),
                      static_cast<int32_t>(program_ >> 32)}));
  while (const std::optional<StoreMessage> message = next_message(deadline)) {
    if (message->kind == StoreMessageKind::kRefused) throw_refusal(*message);
    if (message->kind == StoreMessageKind::kWelcome) was_welcomed_ = true;
    if (message->kind == StoreMessageKind::kComplete) {
      const std::string outside = message->text();
      const std::string local = socket_.local_address();
      own_address_ = is_loopback(local) && !outside.empty() ? outside : local;
      return Attempt::kComplete;
    }
  }
  last_failure_ = is_closed_ ? "the connection was closed" : "the program that listens there does not answer";
  return Attempt::kRetry;
}

std::vector<int32_t> StoreClient::ask_for_missing_ranks() {
  if (!was_welcomed_ || is_closed_) return {};
  send(StoreMessageKind::kListMissing, next_request_++, {});
  const SteadyTime deadline = after(kAnswerLimit);
  while (const std::optional<StoreMessage> message = next_message(deadline)) {
    if (message->kind == StoreMessageKind::kRefused) throw_refusal(*message);
    if (message->kind != StoreMessageKind::kMissing) continue;
    std::vector<int32_t> ranks;
    for (size_t i = 0; const std::optional<int32_t> rank = message->number(i); ++i) ranks.push_back(*rank);
    return ranks;
  }
  return {};
}

void StoreClient::report_missing_ranks(milliseconds limit) {
  const std::string where = host_and_port(host_, port_);
  const std::vector<int32_t> missing = ask_for_missing_ranks();
  std::string text;
  if (missing.empty()) {
    text = fmt::format(
        "Rank 0 of {} did not appear within {} at {} ({}). Check that the process of rank 0 started, and "
        "that "
        "this host can reach the address.",
        size_, seconds_text(limit), where, last_failure_);
  } else {
    text = fmt::format(
        "{} of {} did not appear within {} at {}. Check that every process started, and that its host can "
        "reach the address.",
        rank_list(missing), size_, seconds_text(limit), where);
  }
  leave(text);
  throw Error(ErrorCode::kDevice, text);
}

void StoreClient::send(StoreMessageKind kind, uint32_t request, std::span<const std::byte> payload) {
  std::vector<std::byte> output;
  append_store_message(output, kind, request, payload);
  const std::lock_guard lock(send_mutex_);
  if (!socket_.send_all(output, after(kAnswerLimit))) is_closed_ = true;
}

std::optional<StoreMessage> StoreClient::next_message(SteadyTime deadline) {
  for (;;) {
    StoreParse parse = take_store_message(input_);
    if (parse.is_foreign) {
      throw_error(ErrorCode::kDevice,
                  "The program that listens at {} is not rank 0 of a run: another program uses the port. "
                  "Choose another port for the run.",
                  host_and_port(host_, port_));
    }
    if (parse.message) return std::move(parse.message);
    if (is_closed_ || !socket_.wait_readable(deadline)) return std::nullopt;
    std::array<std::byte, size_t{64} << 10> buffer;
    const int64_t received = socket_.receive_some(buffer);
    if (received < 0) is_closed_ = true;
    if (received > 0) input_.insert(input_.end(), buffer.begin(), buffer.begin() + received);
  }
}

StoreMessage StoreClient::await_answer(StoreMessageKind kind, uint32_t request, std::string_view key,
                                       milliseconds limit) {
  PLIMSOLL_CHECK(!watcher_.joinable(),
                 "StoreClient must not ask for a value after watch() has started, but asks for '{}'", key);
  const SteadyTime deadline = after(limit);
  while (std::optional<StoreMessage> message = next_message(deadline)) {
    if (message->kind == kind && message->request == request) return std::move(*message);
    if (message->kind == StoreMessageKind::kRefused) throw_refusal(*message);
    if (message->kind != StoreMessageKind::kEnded) continue;
    const RankEnd end = read_rank_end(*message);
    if (end.kind == RankEnd::Kind::kLeft) continue;
    throw_error(ErrorCode::kDevice, "Rank {} of {} ended while the ranks were connecting{}{}", end.rank,
                size_, end.text.empty() ? "." : ": ", end.text);
  }
  if (is_closed_) {
    throw_error(ErrorCode::kDevice,
                "Rank 0 of {} ended while the ranks were connecting: its store at {} closed.", size_,
                host_and_port(host_, port_));
  }
  throw_error(ErrorCode::kDevice,
              "The store at {} received no value for '{}' within {}: the rank that sets this value did not "
              "do so in time.",
              host_and_port(host_, port_), key, seconds_text(limit));
}

void StoreClient::set(std::string_view key, std::span<const std::byte> value, milliseconds limit) {
  std::vector<std::byte> payload = store_payload({narrow<int32_t>(key.size())}, key);
  payload.insert(payload.end(), value.begin(), value.end());
  const uint32_t request = next_request_++;
  send(StoreMessageKind::kSet, request, payload);
  await_answer(StoreMessageKind::kDone, request, key, limit);
}

std::vector<std::byte> StoreClient::get(std::string_view key, milliseconds limit) {
  const uint32_t request = next_request_++;
  send(StoreMessageKind::kGet, request, std::as_bytes(std::span(key)));
  return await_answer(StoreMessageKind::kValue, request, key, limit).payload;
}

void StoreClient::wait(const std::vector<std::string>& keys, milliseconds limit) {
  const SteadyTime deadline = after(limit);
  for (const std::string& key : keys) static_cast<void>(get(key, milliseconds(milliseconds_until(deadline))));
}

void StoreClient::watch(StoreObserver& observer, milliseconds pause) {
  PLIMSOLL_CHECK(!watcher_.joinable());
  const BlockedSignals blocked = BlockedSignals::all();
  watcher_ = std::thread([this, &observer, pause] { watch_loop(observer, pause); });
}

void StoreClient::ask_positions() {
  send(StoreMessageKind::kAskPositions, 0, {});
}

// Handles a message in the thread of watch(). Returns false if the client should read no more messages.
bool StoreClient::handle_watched(const StoreMessage& message, StoreObserver& observer) {
  if (message.kind == StoreMessageKind::kEnded) {
    const RankEnd end = read_rank_end(message);
    observer.on_end(end);
    // If rank 0 has ended, its server waits until all clients have closed their connections. This
    // client therefore stops reading and closes its connection.
    return end.rank != 0;
  }
  if (message.kind == StoreMessageKind::kWhere)
    send(StoreMessageKind::kMyPosition, 0,
         position_payload(message.number(0).value_or(0), observer.own_position()));
  if (message.kind == StoreMessageKind::kPosition) {
    const int rank = message.number(0).value_or(-1);
    const std::optional<RankPosition> position = read_position(message);
    if (position && rank >= 0 && rank < size_) observer.on_position(rank, *position);
  }
  return true;
}

void StoreClient::watch_loop(StoreObserver& observer, milliseconds pause) {
  bool rank_0_ended = false;
  try {
    while (!rank_0_ended) {
      const std::optional<StoreMessage> message = next_message(after(pause));
      if (!message && is_closed_) break;
      if (message) rank_0_ended = !handle_watched(*message, observer);
      observer.on_time(*this);
    }
  } catch (const Error&) {
    // The server sent bytes that are no messages of this protocol. The connection is unusable, as if the server had closed it.
  }
  socket_.shut_down();
  // The connection ends without a failure if the end of rank 0 was reported before, or if this rank has left. In all other cases
  // rank 0 has died.
  if (!rank_0_ended && rank_ != 0 && !has_left()) observer.on_end({.rank = 0, .kind = RankEnd::Kind::kDied});
  std::unique_lock lock(mutex_);
  connection_ended_ = true;
  watch_changed_.notify_all();
  while (!watch_changed_.wait_for(lock, pause, [&] { return stops_; })) {
    lock.unlock();
    observer.on_time(*this);
    lock.lock();
  }
}

bool StoreClient::has_left() {
  const std::lock_guard lock(send_mutex_);
  return has_left_;
}

void StoreClient::leave(const std::string& failure) {
  const std::lock_guard lock(send_mutex_);
  if (has_left_ || !socket_) return;
  has_left_ = true;
  std::vector<std::byte> output;
  const std::string_view text = std::string_view(failure).substr(0, kMaxStorePayload);
  append_store_message(output, StoreMessageKind::kLeave, 0, std::as_bytes(std::span(text)));
  static_cast<void>(socket_.send_all(output, after(kLeaveLimit)));
}

}  // namespace plimsoll
