// Segments of programs (forward pass, backward pass or update) that are captured as CUDA graphs and replayed. Their number is limited by
// the memory that the plan reserves for them. Only for the CUDA backend; not thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <list>
#include <utility>

#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_error.h"
#include "exec/backend.h"

namespace plimsoll {

// The CUDA graph of one segment of a program (its forward pass, backward pass or update) for batches of one size (a bucket). Owns the CUDA
// graph.
class CapturedSegment {
 public:
  CapturedSegment() = default;
  ~CapturedSegment() {
    if (executable_ != nullptr) static_cast<void>(cudaGraphExecDestroy(executable_));
  }
  CapturedSegment(const CapturedSegment&) = delete;
  CapturedSegment& operator=(const CapturedSegment&) = delete;

  bool is_captured() const { return executable_ != nullptr; }
  void release() {
    if (executable_ != nullptr) PLIMSOLL_CUDA(cudaGraphExecDestroy(std::exchange(executable_, nullptr)));
  }

  // Captures the work that body() enqueues on the stream. Errors: those of body(), after which nothing is captured.
  template <typename Body>
  void capture(CudaStream stream, const Body& body) {
    // In the mode cudaStreamCaptureModeThreadLocal, the capture does not affect calls of other threads. If this thread makes a call that is
    // not allowed during a capture, that call fails.
    PLIMSOLL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      body();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(stream, &graph));
      if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
      throw;
    }
    PLIMSOLL_CUDA(cudaStreamEndCapture(stream, &graph));
    // cudaGraphInstantiateFlagUseNodePriority is set, because kernels of the graph would otherwise have the priority of the stream into
    // which it is launched.
    const cudaError_t error =
        cudaGraphInstantiateWithFlags(&executable_, graph, cudaGraphInstantiateFlagUseNodePriority);
    PLIMSOLL_CUDA(cudaGraphDestroy(graph));
    PLIMSOLL_CUDA(error);
  }

  void launch(CudaStream stream) { PLIMSOLL_CUDA(cudaGraphLaunch(executable_, stream)); }

  // The first run is not captured, because it loads CUDA modules and the kernels of libraries,
  // which is not allowed during a capture.
  bool has_run = false;
  // True if the captured work includes the copies of inputs and outputs (ExecutorBackend::run_and_fetch).
  bool has_copies = false;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// Returns the CUDA graph of this segment (forward pass, backward pass or update), which is stored in the program. The first call creates
// the object; it contains no graph yet.
inline CapturedSegment& captured_segment(BoundProgram& program, Segment segment) {
  std::shared_ptr<void>& kept = program.prepared[index_of(segment)];
  if (kept == nullptr) kept = std::make_shared<CapturedSegment>();
  return *static_cast<CapturedSegment*>(kept.get());
}

// The list of captured CUDA graphs, least recently used first. The plan reserves memory for a
// limited number of them.
class CapturedSegments {
 public:
  explicit CapturedSegments(const Plan& plan) : most_(static_cast<size_t>(plan.gpu_constant.graph_count())) {}

  // Returns true if one more segment (for example a forward pass for batches of another size) may be captured. If a run uses more segments
  // than the plan has counted, for example because a callback requests an evaluation, the additional segments are enqueued op by op. But if
  // the plan reserves memory for the maximum number of captured segments (kMaxCapturedSegments) and all of them are in use, this function
  // waits for the device and releases the least recently used one.
  bool make_room(CudaDevice& device) {
    if (used_.size() < most_) return true;
    if (most_ < size_t{kMaxCapturedSegments}) return false;
    device.synchronize();
    const auto [program, segment] = used_.front();
    captured_segment(*program, segment).release();
    used_.pop_front();
    return true;
  }
  void touch(BoundProgram& program, Segment segment) {
    const std::pair<BoundProgram*, Segment> key{&program, segment};
    used_.remove(key);
    used_.push_back(key);
  }

 private:
  size_t most_;
  std::list<std::pair<BoundProgram*, Segment>> used_;
};

}  // namespace plimsoll
