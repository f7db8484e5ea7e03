// Messages between pipeline stages through NCCL. Each pair of neighbouring stages has two connections, one per direction, because
// operations of one connection wait for each other, and a message may have to wait until its receiver has sent a message in the other
// direction. Sends run on their own stream, so that a stage computes while the next stage has not yet received its message.
#include <cuda_runtime_api.h>

#include <chrono>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/comm/gpu_communicator.h"
#include "device/comm/nccl_library.h"
#include "device/comm/rank_failure.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/event.h"

namespace plimsoll {
namespace {

// The largest number of thread blocks that NCCL may use per connection. Four are enough to transfer
// a message at the full rate of the link, and more would take multiprocessors from the computation.
constexpr int kMostMessageBlocks = 4;

// The two connections with a neighbouring stage, which is the stage before or the stage after this one.
struct Neighbour {
  int stage = 0;
  NcclHandle to = nullptr;    // connection for messages to the neighbour
  NcclHandle from = nullptr;  // connection for messages from the neighbour
  CudaSideStream stream{CudaSideStream::Priority::kHigh};
  CudaEvent is_ready;  // event that is reached when the message has been copied into the send buffer
  CudaEvent is_sent;   // event that is reached when the neighbour has received the message
};

class NcclMessages final : public GpuMessages {
 public:
  NcclMessages(Communicator& stages, int gpu_ordinal) : stages_(stages) {
    PLIMSOLL_CUDA(cudaSetDevice(gpu_ordinal));
    // All stages connect the pairs in the same order, because otherwise two stages could wait for each other forever.
    for (int first = 0; first + 1 < stages.size(); ++first) connect_pair(first);
    stages.on_failure([this](const std::string& text) { fail(text); });
  }

  // NCCL requires that both ranks of a connection close it together. Both stages of a pair therefore close their two connections
  // in the same order, first the one for messages to the later stage. After an error the connections are aborted instead, because
  // the other stage may not close its end.
  ~NcclMessages() override {
    stages_.on_failure({});
    for (const Neighbour& neighbour : neighbours_) {
      const bool is_later = neighbour.stage > stages_.rank();
      for (const NcclHandle connection :
           {is_later ? neighbour.to : neighbour.from, is_later ? neighbour.from : neighbour.to}) {
        if (connection == nullptr) continue;
        if (std::uncaught_exceptions() > 0) {
          nccl().comm_stop(connection);
        } else {
          nccl().comm_destroy(connection);
        }
      }
    }
  }

  void send(ConstView x, View room, int64_t bytes, int to, CudaStream stream) override {
    const std::lock_guard lock(uses_connections_);
    require_all_ranks();
    Neighbour& neighbour = neighbour_of(to);
    neighbour.is_sent.hold_back(stream);
    PLIMSOLL_CUDA(
        cudaMemcpyAsync(room.data, x.data, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream));
    neighbour.is_ready.record(stream);
    neighbour.is_ready.hold_back(neighbour.stream.get());
    send_bytes(neighbour, room.data, bytes);
    neighbour.is_sent.record(neighbour.stream.get());
  }

  void receive(View y, int64_t bytes, int from, CudaStream stream) override {
    const std::lock_guard lock(uses_connections_);
    require_all_ranks();
    receive_bytes(neighbour_of(from), y.data, bytes, stream);
  }

  void wait_until_received() override {
    for (const Neighbour& neighbour : neighbours_)
      PLIMSOLL_CUDA(cudaStreamSynchronize(neighbour.stream.get()));
    require_all_ranks();
  }

  void require_all_ranks() override { failure_.require_none(); }

 private:
  Neighbour& neighbour_of(int stage) {
    for (Neighbour& neighbour : neighbours_) {
      if (neighbour.stage == stage) return neighbour;
    }
    PLIMSOLL_CHECK(false,
                   "stage {} of the pipeline can exchange data only with the stages before and after it, not "
                   "with stage {}",
                   stages_.rank(), stage);
  }

  // Returns the neighbour's rank in an NCCL connection, which has two ranks: rank 0 is the earlier stage.
  int rank_of(const Neighbour& neighbour) const { return neighbour.stage < stages_.rank() ? 0 : 1; }

  void send_bytes(const Neighbour& neighbour, const void* bytes, int64_t count) {
    check(nccl().send(bytes, static_cast<size_t>(count), NcclType::kU8, rank_of(neighbour), neighbour.to,
                      neighbour.stream.get()),
          "ncclSend", neighbour.to);
  }
  void receive_bytes(const Neighbour& neighbour, void* bytes, int64_t count, CudaStream stream) {
    check(nccl().receive(bytes, static_cast<size_t>(count), NcclType::kU8, rank_of(neighbour), neighbour.from,
                         stream),
          "ncclRecv", neighbour.from);
  }

  // Connects the stages `first` and `first` + 1. Every stage must call it, because the ids of the connections are broadcast to all stages.
  void connect_pair(int first) {
    const int own = stages_.rank();
    NcclId down, up;
    if (own == first) {
      check(nccl().get_unique_id(&down), "ncclGetUniqueId", nullptr);
      check(nccl().get_unique_id(&up), "ncclGetUniqueId", nullptr);
    }
    for (NcclId* id : {&down, &up}) stages_.broadcast(std::as_writable_bytes(std::span(id->bytes)), first);
    if (own != first && own != first + 1) return;
    const bool is_earlier = own == first;
    Neighbour& neighbour = neighbours_.emplace_back();
    neighbour.stage = is_earlier ? first + 1 : first;
    connect(is_earlier ? neighbour.to : neighbour.from, down, is_earlier ? 0 : 1);
    connect(is_earlier ? neighbour.from : neighbour.to, up, is_earlier ? 0 : 1);
    exchange_once(neighbour, is_earlier);
  }

  void connect(NcclHandle& connection, const NcclId& id, int rank) {
    NcclConfig config{.max_ctas = kMostMessageBlocks};
    check(nccl().comm_init(&connection, 2, id, rank, &config), "ncclCommInitRankConfig", nullptr);
  }

  // Exchanges one byte, because NCCL allocates the buffers of a connection when it is first used, and nothing may be allocated
  // during training.
  void exchange_once(Neighbour& neighbour, bool sends_first) {
    void* byte = nullptr;
    PLIMSOLL_CUDA(cudaMalloc(&byte, 1));
    const CudaStream stream = neighbour.stream.get();
    for (const bool sends : {sends_first, !sends_first}) {
      if (sends) {
        send_bytes(neighbour, byte, 1);
      } else {
        receive_bytes(neighbour, byte, 1, stream);
      }
      PLIMSOLL_CUDA(cudaStreamSynchronize(stream));
    }
    PLIMSOLL_CUDA(cudaFree(byte));
  }

  void check(int result, const char* call, NcclHandle connection) {
    if (result == 0) return;
    require_all_ranks();
    const char* detail = connection == nullptr ? nullptr : nccl().last_error(connection);
    throw_error(ErrorCode::kDevice,
                "NCCL reports '{}' at {} in stage {} of {}{}{}; NCCL_DEBUG=INFO prints more, and --tp_size "
                "divides the model over GPUs without pipeline stages",
                nccl().error_string(result), call, stages_.rank(), stages_.size(),
                detail != nullptr && *detail != '\0' ? ": " : "", detail == nullptr ? "" : detail);
  }

  // Aborts pending messages after a rank has failed, because they would wait for it forever. Called in a thread of the
  // communicator that connects the processes.
  void fail(const std::string& text) {
    if (!failure_.report(text)) return;
    constexpr std::chrono::milliseconds kLimit{500};
    const std::unique_lock lock(uses_connections_, kLimit);
    for (Neighbour& neighbour : neighbours_) {
      for (NcclHandle* connection : {&neighbour.to, &neighbour.from})
        nccl().comm_stop(std::exchange(*connection, nullptr));
    }
  }

  Communicator& stages_;
  std::vector<Neighbour> neighbours_;
  std::timed_mutex uses_connections_;  // locked while a call of NCCL runs
  RankFailure failure_;
};

}  // namespace

std::unique_ptr<GpuMessages> connect_messages(Communicator& stages, int gpu_ordinal) {
  return std::make_unique<NcclMessages>(stages, gpu_ordinal);
}

}  // namespace plimsoll
