#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <optional>
#include <vector>

#include "base/check.h"
#include "device/cpu/parallel.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/error.h"
#include "exec/backend.h"
#include "exec/cuda/bind_cuda.h"
#include "exec/cuda/ceilings_cuda.h"
#include "exec/cuda/measure_products.h"
#include "exec/cuda/module_range.h"
#include "kernels/optimizer/weight_copy_cuda.h"

namespace plimsoll {
namespace {

// A segment captured for replay. The first run of a segment is not captured: modules and the libraries'
// kernels are loaded then, which a capture does not allow.
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

  template <typename Body>
  void capture(CudaStream stream, const Body& body) {
    // Relaxed would let other threads' calls into the graph; thread-local refuses unsafe calls of this one.
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
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    PLIMSOLL_CUDA(cudaGraphDestroy(graph));
    PLIMSOLL_CUDA(error);
  }

  void launch(CudaStream stream) { PLIMSOLL_CUDA(cudaGraphLaunch(executable_, stream)); }

  bool has_run = false;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

class CudaBackend final : public ExecutorBackend {
 public:
  CudaBackend(const Plan& plan, uint8_t fill)
      : plan_(plan),
        fill_(fill),
        device_(plan.request.gpu_ordinal),
        arena_(device_, plan.request.separate_buffers ? 1 : plan.arena_bytes, fill),
        map_(plan.request.separate_buffers
                 ? ArenaMap(plan, [this](int64_t bytes) { return take_block(bytes); })
                 : ArenaMap(arena_.data(), arena_.bytes())) {
    // What the host computes (fresh weights) it computes on all threads.
    set_num_threads(plan.request.num_threads);
    find_exchange(plan);
    twin_ = PinnedMemory(exchange_end_ - exchange_begin_);
    std::memset(twin_.data(), fill, static_cast<size_t>(twin_.bytes()));
    for (cudaEvent_t& event : events_) PLIMSOLL_CUDA(cudaEventCreate(&event));
  }
  ~CudaBackend() override {
    for (cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  const ArenaMap& arena() const override { return map_; }
  std::byte* exchange(int64_t offset) const override {
    PLIMSOLL_CHECK(offset >= exchange_begin_ && offset < exchange_end_, "offset {} is no input or output",
                   offset);
    return twin_.data() + (offset - exchange_begin_);
  }

  void before_host_writes() override {
    // The copy of the inputs before may still be under way.
    if (std::exchange(upload_under_way_, false)) device_.synchronize();
    inputs_changed_ = true;
  }

  void before_host_reads() override {
    if (!std::exchange(outputs_stale_, false)) return;
    map_.for_each_part(outputs_begin_, exchange_end_, [this](int64_t offset, std::byte* data, int64_t bytes) {
      device_.copy_to_host(exchange(offset), data, bytes);
    });
    device_.synchronize();
    upload_under_way_ = false;
  }

  void read(int64_t offset, std::span<std::byte> bytes) const override {
    CudaDevice& device = const_cast<CudaDevice&>(device_);
    device.copy_to_host(bytes.data(), map_.at(offset), std::ssize(bytes));
    device.synchronize();
  }
  void write(int64_t offset, std::span<const std::byte> bytes) override {
    device_.copy_to_device(map_.at(offset), bytes.data(), std::ssize(bytes));
    device_.synchronize();
  }
  void fill(int64_t offset, int64_t bytes, uint8_t value) override {
    map_.for_each_part(offset, offset + bytes, [this, value](int64_t, std::byte* data, int64_t part) {
      device_.fill(data, value, part);
    });
    device_.synchronize();
  }

  void copy_weights(ConstView from, View to, int64_t count) override {
    copy_weights_cuda({.weight = from, .low = to, .n = count}, device_.stream());
  }

  std::function<void()> bind(const BindContext& context) const override {
    return bind_cuda(context, device_.stream());
  }

  void run(BoundProgram& program, Segment segment) override {
    upload_inputs();
    outputs_stale_ = true;
    std::shared_ptr<void>& kept = program.prepared[index_of(segment)];
    if (kept == nullptr) kept = std::make_shared<CapturedSegment>();
    auto& captured = *static_cast<CapturedSegment*>(kept.get());
    if (!captured.has_run) {
      give(program, segment);
      captured.has_run = true;
      return;
    }
    if (!captured.is_captured()) {
      make_room();
      captured.capture(device_.stream(), [&] { give(program, segment); });
    }
    touch(program, segment);
    captured.launch(device_.stream());
  }

  void run_timed(BoundProgram& program, Segment segment, std::vector<OpTime>& times) override {
    upload_inputs();
    outputs_stale_ = true;
    ModuleRange range;
    for (const BoundOp& op : program.ops) {
      if (op.segment != segment) continue;
      range.enter(program, op);
      PLIMSOLL_CUDA(cudaEventRecord(events_[0], device_.stream()));
      op.run();
      PLIMSOLL_CUDA(cudaEventRecord(events_[1], device_.stream()));
      PLIMSOLL_CUDA(cudaEventSynchronize(events_[1]));
      float milliseconds = 0;
      PLIMSOLL_CUDA(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]));
      times[op.index].milliseconds += milliseconds;
      add_cost(times[op.index], program, op.index);
    }
  }

  Ceilings measure_ceilings() override {
    if (plan_.request.separate_buffers) return {};
    const std::span<std::byte> transient(arena_.data() + plan_.persistent_bytes,
                                         static_cast<size_t>(plan_.arena_bytes - plan_.persistent_bytes));
    const Ceilings ceilings = measure_ceilings_cuda(device_, transient, plan_.request);
    fill(plan_.persistent_bytes, std::ssize(transient), fill_);
    return ceilings;
  }

  TuningTable measure_products(const Plan& plan) override {
    if (plan.request.separate_buffers) return plan.request.tuning;
    // More than this is not rotated through; a larger part of the arena would only have to be filled twice.
    constexpr int64_t kMost = int64_t{6} << 30;
    const int64_t bytes = std::min(arena_.bytes(), kMost);
    TuningTable table = tune_products(plan, *make_cuda_measurer(device_, arena_.data(), bytes));
    device_.fill(arena_.data(), fill_, bytes);
    device_.synchronize();
    return table;
  }

  int64_t high_water_bytes() const override {
    if (plan_.request.separate_buffers) return plan_.arena_bytes;
    return arena_.high_water_bytes(const_cast<CudaDevice&>(device_));
  }

 private:
  // Not filled: initcheck sees what nobody wrote.
  std::byte* take_block(int64_t bytes) {
    blocks_.emplace_back(device_, bytes, std::nullopt);
    return blocks_.back().data();
  }

  void find_exchange(const Plan& plan) {
    exchange_begin_ = outputs_begin_ = exchange_end_ = plan.persistent_bytes;
    for (const PersistentBuffer& buffer : plan.persistent) {
      if (buffer.storage == Storage::kInput) exchange_begin_ = std::min(exchange_begin_, buffer.offset);
      if (buffer.storage == Storage::kOutput) outputs_begin_ = std::min(outputs_begin_, buffer.offset);
    }
    // Inputs lie before outputs, and both at the end of what is persistent.
    exchange_begin_ = std::min(exchange_begin_, outputs_begin_);
  }

  void upload_inputs() {
    if (!std::exchange(inputs_changed_, false)) return;
    map_.for_each_part(exchange_begin_, outputs_begin_,
                       [this](int64_t offset, std::byte* data, int64_t bytes) {
                         device_.copy_to_device(data, exchange(offset), bytes);
                       });
    upload_under_way_ = true;
  }

  static void give(const BoundProgram& program, Segment segment) {
    ModuleRange range;
    for (const BoundOp& op : program.ops) {
      if (op.segment != segment) continue;
      range.enter(program, op);
      op.run();
    }
  }

  // At most as many captured segments are kept as the plan counts.
  void make_room() {
    constexpr size_t kMost = size_t{kMaxCapturedBuckets} * kNumSegments;
    if (kept_.size() < kMost) return;
    device_.synchronize();
    BoundProgram& oldest = *kept_.front().first;
    static_cast<CapturedSegment*>(oldest.prepared[index_of(kept_.front().second)].get())->release();
    kept_.pop_front();
  }
  void touch(BoundProgram& program, Segment segment) {
    const std::pair<BoundProgram*, Segment> key{&program, segment};
    kept_.remove(key);
    kept_.push_back(key);
  }

  const Plan& plan_;
  uint8_t fill_;
  CudaDevice device_;
  CudaArena arena_;
  std::vector<CudaArena> blocks_;  // where buffers lie apart
  ArenaMap map_;
  PinnedMemory twin_;  // of [exchange_begin_, exchange_end_)
  int64_t exchange_begin_ = 0;
  int64_t outputs_begin_ = 0;
  int64_t exchange_end_ = 0;
  bool inputs_changed_ = false;
  bool upload_under_way_ = false;
  bool outputs_stale_ = false;
  std::list<std::pair<BoundProgram*, Segment>> kept_;  // captured, the one used the longest ago first
  cudaEvent_t events_[2] = {};
};

}  // namespace

std::unique_ptr<ExecutorBackend> make_cuda_backend(const Plan& plan, uint8_t fill) {
  return std::make_unique<CudaBackend>(plan, fill);
}

std::function<void()> bind_cuda(const BindContext& context, CudaStream stream) {
  for (const auto bind : {bind_matmul_cuda, bind_attention_cuda, bind_embedding_cuda, bind_element_wise_cuda,
                          bind_norm_cuda, bind_loss_cuda, bind_optimizer_cuda}) {
    if (auto run = bind(context, stream)) return run;
  }
  PLIMSOLL_CHECK(false, "no CUDA binder for op '{}'", context.op().def->name());
}

}  // namespace plimsoll
