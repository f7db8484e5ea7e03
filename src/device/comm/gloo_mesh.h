// TCP connections between all ranks, by the transport of Gloo: one connection per pair of ranks, served by one thread
// of Gloo. This class adds what a run needs and Gloo lacks: waits that another thread can end, and failures that name
// the rank at the other end. The collective operations are in collectives.h.
//
// Gloo's own collective operations are not used because their waits cannot be ended: if a connection closes in the
// middle of a message, Gloo (2022 to 2025) does not wake the thread that waits for it, and ranks that wait for a third
// rank learn nothing at all.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include "device/comm/tcp_socket.h"

namespace gloo::transport {
class Context;
class Device;
class UnboundBuffer;
}  // namespace gloo::transport

namespace plimsoll {

// Thrown by the functions of this file if a transfer cannot be completed. It never leaves src/device/comm.
class TransferFailure : public std::runtime_error {
 public:
  TransferFailure(int peer, const std::string& text) : std::runtime_error(text), peer_(peer) {}
  int peer() const { return peer_; }

 private:
  int peer_;
};

class GlooMesh {
 public:
  // Opens listening sockets at `address`, a numeric address of this host. Errors: kDevice.
  GlooMesh(int rank, int size, const std::string& address, std::chrono::milliseconds connect_limit);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Returns the addresses at which the other ranks connect with this one. They pass these to connect() as `addresses_of_peer`.
  std::vector<std::byte> addresses() const;
  // Connects with rank `peer`. Every rank connects with the others in ascending order. Throws TransferFailure.
  void connect(int peer, std::span<const std::byte> addresses_of_peer);

  // Returns the rank that the current or the last wait waits for, or -1 before the first wait. Any thread may call it.
  int awaited_peer() const { return awaited_peer_.load(std::memory_order_relaxed); }

  // Ends all current and later waits, and closes all connections. Any thread may call it.
  void close();

 private:
  friend class TransferBuffer;
  int rank_;
  int size_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::atomic<int> awaited_peer_ = -1;
  std::mutex mutex_;  // protects is_closed_ and active_
  bool is_closed_ = false;
  std::unordered_set<gloo::transport::UnboundBuffer*> active_;
};

// Memory whose contents are exchanged with one rank. A slot is a number that matches a send with a receive: both must use the
// same slot and size, and messages with the same slot arrive in the order in which they were sent. If a buffer is destroyed
// before its transfers were waited for, it closes all connections of the mesh, so that Gloo does not write into the memory
// afterwards. All functions throw TransferFailure.
class TransferBuffer {
 public:
  TransferBuffer(GlooMesh& mesh, int peer, void* data, size_t bytes);
  ~TransferBuffer();
  TransferBuffer(const TransferBuffer&) = delete;
  TransferBuffer& operator=(const TransferBuffer&) = delete;

  // Begin a transfer and return. Zero bytes are not transferred.
  void send(uint64_t slot, size_t offset, size_t bytes);
  void receive(uint64_t slot, size_t offset, size_t bytes);
  // Wait for the oldest transfer that was begun and has not been waited for. Return at once if there is none.
  void wait_sent(SteadyTime deadline);
  void wait_received(SteadyTime deadline);

 private:
  GlooMesh& mesh_;
  int peer_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  int pending_sends_ = 0;
  int pending_receives_ = 0;
};

}  // namespace plimsoll
