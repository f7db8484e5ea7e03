#include "device/comm/gloo_mesh.h"

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/comm/blocked_signals.h"

namespace plimsoll {
namespace {

using std::chrono::milliseconds;

// Gloo may take up to five times the given time limit to establish a connection.
constexpr int kGlooConnectFactor = 5;
constexpr milliseconds kShortestConnectLimit{1000};

// Returns the time until the deadline, at least 1 ms, because Gloo treats a negative time limit as its own default.
milliseconds limit_until(SteadyTime deadline) {
  return std::max(milliseconds(1),
                  std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()));
}

// Gives threads that are created during its lifetime the policy SCHED_BATCH: when such a thread wakes up, it does not interrupt another
// thread. Gloo's thread needs this policy: if it interrupted a thread that holds the lock of a connection, it would try to take the lock in
// a loop until the end of its time slice. On 2 cores with 4 ranks, an all_reduce of 4 KiB takes 0.6 ms with the policy and 3.8 ms without.
class BatchScheduling {
 public:
  BatchScheduling() : is_normal_(::sched_getscheduler(0) == SCHED_OTHER) {
    if (is_normal_) set(SCHED_BATCH);
  }
  ~BatchScheduling() {
    if (is_normal_) set(SCHED_OTHER);
  }
  BatchScheduling(const BatchScheduling&) = delete;
  BatchScheduling& operator=(const BatchScheduling&) = delete;

 private:
  static void set(int policy) {
    const sched_param parameters = {};
    // If the system refuses the policy, operations are slower but correct.
    static_cast<void>(::sched_setscheduler(0, policy, &parameters));
  }
  bool is_normal_;
};

// Returns the message of an error from Gloo without the source position with which it begins.
std::string gloo_text(const std::exception& error) {
  std::string text = error.what();
  const size_t end = text.find("] ");
  if (text.starts_with("[") && end != std::string::npos) text.erase(0, end + 2);
  return text;
}

}  // namespace

GlooMesh::GlooMesh(int rank, int size, const std::string& address, milliseconds connect_limit)
    : rank_(rank), size_(size) {
  try {
    // Gloo's thread inherits the blocked signals. SIGPIPE must be blocked there, because Gloo writes to sockets without
    // MSG_NOSIGNAL.
    const BlockedSignals blocked = BlockedSignals::all();
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    {
      const BatchScheduling batch;
      device_ = gloo::transport::tcp::CreateDevice(attributes);
    }
    context_ = device_->createContext(rank, size);
    context_->setTimeout(std::max(kShortestConnectLimit, connect_limit / kGlooConnectFactor));
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) context_->createPair(peer);
    }
  } catch (const std::exception& error) {
    throw_error(ErrorCode::kDevice, "Rank {} of {} cannot listen for other ranks at {}: {}.", rank, size,
                address, gloo_text(error));
  }
}

// Destroying Gloo's context closes the connections, and destroying its device ends its thread.
GlooMesh::~GlooMesh() {
  context_.reset();
  device_.reset();
}

std::vector<std::byte> GlooMesh::addresses() const {
  std::vector<std::byte> all;
  for (int peer = 0; peer < size_; ++peer) {
    // The list has an entry for every rank, so that it can be indexed by rank. The entry for this
    // rank is never read, so the address of another rank is used for it.
    const int other = peer != rank_ ? peer : (rank_ == 0 ? 1 : 0);
    const std::vector<char> address = context_->getPair(other)->address().bytes();
    const auto bytes = std::as_bytes(std::span(address));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

void GlooMesh::connect(int peer, std::span<const std::byte> addresses_of_peer) {
  const size_t address_bytes = context_->getPair(peer)->address().bytes().size();
  if (addresses_of_peer.size() != address_bytes * static_cast<size_t>(size_)) {
    throw TransferFailure(peer, "that rank and this one use different versions of Gloo");
  }
  std::vector<char> address(address_bytes);
  std::memcpy(address.data(), addresses_of_peer.data() + address_bytes * static_cast<size_t>(rank_),
              address_bytes);
  try {
    const BlockedSignals blocked = BlockedSignals::sigpipe();
    context_->getPair(peer)->connect(address);
  } catch (const std::exception& error) {
    throw TransferFailure(peer, gloo_text(error));
  }
}

void GlooMesh::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    for (gloo::transport::UnboundBuffer* buffer : active_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    try {
      context_->getPair(peer)->close();
    } catch (const std::exception&) {
      // An error while closing is ignored, because the connection is not used any more.
    }
  }
}

TransferBuffer::TransferBuffer(GlooMesh& mesh, int peer, void* data, size_t bytes)
    : mesh_(mesh), peer_(peer), buffer_(mesh.context_->createUnboundBuffer(data, bytes)) {
  const std::lock_guard lock(mesh_.mutex_);
  if (mesh_.is_closed_) throw TransferFailure(peer_, "all connections were closed");
  mesh_.active_.insert(buffer_.get());
}

TransferBuffer::~TransferBuffer() {
  // If a transfer is still pending here, its operation has failed. Closing all connections keeps Gloo's thread from accessing the
  // memory after this buffer is destroyed.
  if (pending_sends_ + pending_receives_ > 0) mesh_.close();
  const std::lock_guard lock(mesh_.mutex_);
  mesh_.active_.erase(buffer_.get());
}

void TransferBuffer::send(uint64_t slot, size_t offset, size_t bytes) {
  if (bytes == 0) return;
  try {
    buffer_->send(peer_, slot, offset, bytes);
    ++pending_sends_;
  } catch (const std::exception& error) {
    throw TransferFailure(peer_, gloo_text(error));
  }
}

void TransferBuffer::receive(uint64_t slot, size_t offset, size_t bytes) {
  if (bytes == 0) return;
  try {
    buffer_->recv(peer_, slot, offset, bytes);
    ++pending_receives_;
  } catch (const std::exception& error) {
    throw TransferFailure(peer_, gloo_text(error));
  }
}

void TransferBuffer::wait_sent(SteadyTime deadline) {
  if (pending_sends_ == 0) return;
  mesh_.awaited_peer_.store(peer_, std::memory_order_relaxed);
  bool done = false;
  try {
    done = buffer_->waitSend(limit_until(deadline));
  } catch (const std::exception& error) {
    throw TransferFailure(peer_, gloo_text(error));
  }
  if (!done) throw TransferFailure(peer_, "all connections were closed");
  --pending_sends_;
}

void TransferBuffer::wait_received(SteadyTime deadline) {
  if (pending_receives_ == 0) return;
  mesh_.awaited_peer_.store(peer_, std::memory_order_relaxed);
  bool done = false;
  try {
    done = buffer_->waitRecv(limit_until(deadline));
  } catch (const std::exception& error) {
    throw TransferFailure(peer_, gloo_text(error));
  }
  if (!done) throw TransferFailure(peer_, "all connections were closed");
  --pending_receives_;
}

}  // namespace plimsoll
