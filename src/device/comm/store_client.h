// The connection of one rank to the rendezvous store (store_server.h), through which it registers,
// exchanges values with the other ranks, and learns that a rank has ended.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "device/comm/store_message.h"
#include "device/comm/tcp_socket.h"

namespace plimsoll {

class StoreClient;

// The functions by which a StoreClient reports events of the run. They are called in the thread of StoreClient::watch() and must
// not throw.
class StoreObserver {
 public:
  virtual ~StoreObserver() = default;
  // Called when a rank has ended. If the connection to the server closes, rank 0 has died.
  virtual void on_end(const RankEnd& end) = 0;
  // Called when another rank asks for this rank's position, that is, what it is doing.
  virtual RankPosition own_position() = 0;
  // Called when another rank answers ask_positions().
  virtual void on_position(int rank, const RankPosition& position) = 0;
  // Called at intervals of about `pause` (the argument of watch()), even after the connection to the server has closed.
  virtual void on_time(StoreClient& store) = 0;
};

// A client of the store. One thread at a time may use it, and in addition the thread of watch() may call leave() and ask_positions().
class StoreClient {
 public:
  // Connects to the server and registers this rank; returns when all ranks are registered. Retries until `limit` has passed if there is no
  // server yet. `program`: a hash of the program, which must be equal on all ranks. Errors: kDevice if a rank is missing after `limit` (the
  // message names all missing ranks), or if another rank gave up; kUsage if two processes claim the same rank, or the ranks disagree about
  // the number of ranks or the program.
  StoreClient(std::string host, uint16_t port, int rank, int size, std::chrono::milliseconds limit,
              uint64_t program = 0);
  // Calls leave() if that was not done, and waits up to a second until the server has received the message of leave().
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  // Stores a value under a key, which all ranks can read. Errors: those of get().
  void set(std::string_view key, std::span<const std::byte> value, std::chrono::milliseconds limit);
  // Waits until a rank has set a value for the key, and returns this value. Errors: kDevice if no rank has set it within `limit`, or if a
  // rank ended. Requires: watch() was not called.
  std::vector<std::byte> get(std::string_view key, std::chrono::milliseconds limit);
  // Waits until values for all these keys exist. Errors and requirements: those of get().
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds limit);

  // Starts a thread that reports events to the observer until this object is destroyed. The observer must outlive this object.
  void watch(StoreObserver& observer, std::chrono::milliseconds pause);
  // Asks the other ranks for their positions, that is, what they are doing.
  void ask_positions();

  // Tells the other ranks that this rank takes no further part in the run. `failure` is the reason;
  // it is empty if the rank has ended without a failure. Later calls do nothing.
  void leave(const std::string& failure);

  // The address at which other ranks reach this one.
  const std::string& own_address() const { return own_address_; }

 private:
  enum class Attempt : uint8_t { kComplete, kRetry };
  Attempt register_on(TcpSocket socket, SteadyTime deadline);
  [[noreturn]] void report_missing_ranks(std::chrono::milliseconds limit);
  std::vector<int32_t> ask_for_missing_ranks();
  void send(StoreMessageKind kind, uint32_t request, std::span<const std::byte> payload);
  std::optional<StoreMessage> next_message(SteadyTime deadline);
  StoreMessage await_answer(StoreMessageKind kind, uint32_t request, std::string_view key,
                            std::chrono::milliseconds limit);
  void watch_loop(StoreObserver& observer, std::chrono::milliseconds pause);
  bool handle_watched(const StoreMessage& message, StoreObserver& observer);
  bool has_left();

  std::string host_;
  uint16_t port_;
  int rank_;
  int size_;
  uint64_t program_;
  TcpSocket socket_;
  std::vector<std::byte> input_;
  std::string own_address_;
  std::string last_failure_;             // text of the error of the last attempt to connect
  std::atomic<bool> is_closed_ = false;  // the server closed the connection
  // true after the server has answered, which shows that it speaks the protocol of the store
  bool was_welcomed_ = false;
  uint32_t next_request_ = 1;
  std::mutex send_mutex_;  // protects has_left_, and is held while a message is sent
  bool has_left_ = false;
  std::mutex mutex_;  // protects all members below
  std::condition_variable watch_changed_;
  bool stops_ = false;
  bool connection_ended_ = false;  // true after the thread of watch() has ended the connection
  std::thread watcher_;
};

}  // namespace plimsoll
