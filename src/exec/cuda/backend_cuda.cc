#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <limits>
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
// kernels are loaded then, which a capture does not allow. Nor is any of a segment that moves activations:
// while replays wait behind one another for the link, on an H200, it carries 49 to 51 GB/s in place of 55.
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
                 ? ArenaMap(plan, Space::kDevice, [this](int64_t bytes) { return take_block(bytes); })
                 : ArenaMap(arena_.data(), arena_.bytes())),
        host_map_(plan.request.separate_buffers
                      ? ArenaMap(plan, Space::kHost, [this](int64_t bytes) { return take_host_block(bytes); })
                      : ArenaMap(take_host_arena(plan), plan.host_arena_bytes)) {
    // What the host computes (fresh weights) it computes on all threads.
    set_num_threads(plan.request.num_threads);
    find_exchange(plan);
    // The host reads all outputs at once, also those that no program has written yet.
    if (plan.request.separate_buffers) {
      map_.for_each_part(outputs_begin_, exchange_end_, [this](int64_t, std::byte* data, int64_t bytes) {
        device_.fill(data, fill_, bytes);
      });
    }
    twin_ = PinnedMemory(exchange_end_ - exchange_begin_);
    std::memset(twin_.data(), fill, static_cast<size_t>(twin_.bytes()));
    for (cudaEvent_t& event : events_) PLIMSOLL_CUDA(cudaEventCreate(&event));
    PLIMSOLL_CUDA(cudaStreamCreateWithFlags(&staging_stream_, cudaStreamNonBlocking));
    for (cudaEvent_t* event : {&staged_, &taken_, &update_inputs_sent_, &fetched_}) {
      PLIMSOLL_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    }
    if (plan.host_arena_bytes > 0) make_copy_streams(plan);
  }
  ~CudaBackend() override {
    for (cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
    for (cudaEvent_t event : copy_events_) static_cast<void>(cudaEventDestroy(event));
    for (cudaEvent_t event : {staged_, taken_, update_inputs_sent_, fetched_}) {
      if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
    }
    if (staging_stream_ != nullptr) static_cast<void>(cudaStreamDestroy(staging_stream_));
    for (cudaStream_t stream : copy_streams_) {
      if (stream != nullptr) static_cast<void>(cudaStreamDestroy(stream));
    }
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  const ArenaMap& arena(Space space) const override { return space == Space::kDevice ? map_ : host_map_; }
  std::byte* exchange(int64_t offset) const override {
    PLIMSOLL_CHECK(offset >= exchange_begin_ && offset < exchange_end_, "offset {} is no input or output",
                   offset);
    return twin_.data() + (offset - exchange_begin_);
  }

  void before_host_writes(Inputs inputs) override {
    // The copy of those before may still be under way.
    Sent& sent = sent_[index_of(inputs)];
    if (std::exchange(sent.is_under_way, false)) {
      PLIMSOLL_CUDA(cudaEventSynchronize(inputs == Inputs::kBatch ? staged_ : update_inputs_sent_));
    }
    sent.is_changed = true;
  }

  void before_host_reads() override {
    if (outputs_stale_) fetch_outputs();
    wait_for_outputs();
  }

  void fetch_outputs() override {
    wait_for_outputs();
    map_.for_each_part(outputs_begin_, exchange_end_, [this](int64_t offset, std::byte* data, int64_t bytes) {
      device_.copy_to_host(exchange(offset), data, bytes);
    });
    PLIMSOLL_CUDA(cudaEventRecord(fetched_, device_.stream()));
    outputs_stale_ = false;
    outputs_under_way_ = true;
  }
  const std::byte* fetched(int64_t offset) override {
    wait_for_outputs();
    return exchange(offset);
  }
  bool is_fetching() const override {
    if (!outputs_under_way_) return false;
    const cudaError_t state = cudaEventQuery(fetched_);
    if (state == cudaErrorNotReady) return true;
    PLIMSOLL_CUDA(state);
    return false;
  }
  void wait() override { device_.synchronize(); }

  void read(Space space, int64_t offset, std::span<std::byte> bytes) const override {
    CudaDevice& device = const_cast<CudaDevice&>(device_);
    if (space == Space::kHost) {
      device.synchronize();
      std::memcpy(bytes.data(), host_map_.at(offset), bytes.size());
      return;
    }
    device.copy_to_host(bytes.data(), map_.at(offset), std::ssize(bytes));
    device.synchronize();
  }
  void write(Space space, int64_t offset, std::span<const std::byte> bytes) override {
    if (space == Space::kHost) {
      device_.synchronize();
      std::memcpy(host_map_.at(offset), bytes.data(), bytes.size());
      return;
    }
    device_.copy_to_device(map_.at(offset), bytes.data(), std::ssize(bytes));
    device_.synchronize();
  }
  void fill(Space space, int64_t offset, int64_t bytes, uint8_t value) override {
    if (space == Space::kHost) {
      device_.synchronize();
      host_map_.for_each_part(offset, offset + bytes, [value](int64_t, std::byte* data, int64_t part) {
        std::memset(data, value, static_cast<size_t>(part));
      });
      return;
    }
    map_.for_each_part(offset, offset + bytes, [this, value](int64_t, std::byte* data, int64_t part) {
      device_.fill(data, value, part);
    });
    device_.synchronize();
  }

  void copy_weights(ConstView from, View to, int64_t count) override {
    copy_weights_cuda({.weight = from, .low = to, .n = count}, device_.stream());
  }

  std::function<void()> bind(const BindContext& context) const override {
    const std::optional<Space> to = context.copies_to();
    return bind_cuda(context, to ? copy_streams_[index_of(*to)] : device_.stream());
  }

  // A forward pass behind an evaluation or a checkpoint has nothing left to finish, unlike the captured one:
  // it is given op by op, and does not count as the first run of all.
  void run(BoundProgram& program, Segment segment, Carried carried) override {
    send_inputs();
    outputs_stale_ = true;
    std::shared_ptr<void>& kept = program.prepared[index_of(segment)];
    if (kept == nullptr) kept = std::make_shared<CapturedSegment>();
    auto& captured = *static_cast<CapturedSegment*>(kept.get());
    const bool is_idle_in_part = segment == Segment::kForward && carried == Carried::kNothing &&
                                 program.plan->leaves_after.has_value();
    if (!captured.has_run || is_idle_in_part || !program.plan->is_captured(segment)) {
      give(program, segment, carried);
      captured.has_run = captured.has_run || !is_idle_in_part;
      return;
    }
    if (!captured.is_captured()) {
      make_room();
      captured.capture(device_.stream(), [&] { give(program, segment, carried); });
    }
    touch(program, segment);
    captured.launch(device_.stream());
  }

  void run_timed(BoundProgram& program, Segment segment, Carried carried,
                 std::vector<OpTime>& times) override {
    send_inputs();
    outputs_stale_ = true;
    ModuleRange range;
    for (const BoundOp& op : program.ops) {
      if (op.segment != segment || is_idle(program, op, carried)) continue;
      range.enter(program, op);
      PLIMSOLL_CUDA(cudaEventRecord(events_[0], device_.stream()));
      if (const std::optional<Space> to = program.plan->ops[op.index].copies_to) {
        start_copy(op, *to, 0);
        wait_for_copy(0);
      } else {
        op.run();
      }
      PLIMSOLL_CUDA(cudaEventRecord(events_[1], device_.stream()));
      PLIMSOLL_CUDA(cudaEventSynchronize(events_[1]));
      float milliseconds = 0;
      PLIMSOLL_CUDA(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]));
      times[op.index].milliseconds += milliseconds;
      add_cost(times[op.index], program, op.index);
    }
  }

  void finish_last_run(BoundProgram& program) override {
    give_if(program, [&](const BoundOp& op) { return program.plan->ops[op.index].of_last_run; });
  }

  Ceilings measure_ceilings() override {
    if (plan_.request.separate_buffers) return {};
    const std::span<std::byte> transient(arena_.data() + plan_.persistent_bytes,
                                         static_cast<size_t>(plan_.arena_bytes - plan_.persistent_bytes));
    const Ceilings ceilings = measure_ceilings_cuda(device_, transient, plan_.request);
    fill(Space::kDevice, plan_.persistent_bytes, std::ssize(transient), fill_);
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

  int64_t written_bytes() const override {
    if (plan_.request.separate_buffers) return plan_.arena_bytes;
    return arena_.written_bytes(const_cast<CudaDevice&>(device_));
  }

 private:
  // Not filled: initcheck sees what nobody wrote.
  std::byte* take_block(int64_t bytes) {
    blocks_.emplace_back(device_, bytes, std::nullopt);
    return blocks_.back().data();
  }

  std::byte* take_host_block(int64_t bytes) {
    host_blocks_.emplace_back(bytes);
    return host_blocks_.back().data();
  }

  std::byte* take_host_arena(const Plan& plan) {
    if (plan.host_arena_bytes == 0) return nullptr;
    std::byte* data = take_host_block(plan.host_arena_bytes);
    std::memset(data, fill_, static_cast<size_t>(plan.host_arena_bytes));
    return data;
  }

  void find_exchange(const Plan& plan) {
    exchange_begin_ = outputs_begin_ = exchange_end_ = plan.persistent_bytes;
    for (const PersistentBuffer& buffer : plan.persistent) {
      if (buffer.space == Space::kHost || buffer.name == kStagedInputs) continue;
      if (buffer.storage == Storage::kInput) exchange_begin_ = std::min(exchange_begin_, buffer.offset);
      if (buffer.storage == Storage::kOutput) outputs_begin_ = std::min(outputs_begin_, buffer.offset);
    }
    // Inputs lie before outputs, and both at the end of what is persistent.
    exchange_begin_ = std::min(exchange_begin_, outputs_begin_);
    staged_begin_ = plan.buffer(std::string(kStagedInputs)).offset;
    update_begin_ = update_end_ = exchange_begin_;
    if (!plan.train) return;
    const PersistentBuffer& first = plan.buffer("learning_rate");
    const PersistentBuffer& last = plan.buffer("step");
    update_begin_ = first.offset;
    update_end_ = last.offset + last.bytes;
    PLIMSOLL_CHECK(last.offset == first.offset + first.bytes, "learning rate and step lie apart");
  }

  void send_inputs() {
    if (std::exchange(sent_[index_of(Inputs::kBatch)].is_changed, false)) stage_batch();
    if (std::exchange(sent_[index_of(Inputs::kUpdate)].is_changed, false)) {
      map_.for_each_part(update_begin_, update_end_, [this](int64_t offset, std::byte* data, int64_t bytes) {
        device_.copy_to_device(data, exchange(offset), bytes);
      });
      PLIMSOLL_CUDA(cudaEventRecord(update_inputs_sent_, device_.stream()));
      sent_[index_of(Inputs::kUpdate)].is_under_way = true;
    }
  }

  // To the place where a batch waits as soon as the one before has left it, and from there to where ops read
  // it when these are done with that one.
  void stage_batch() {
    const std::pair<int64_t, int64_t> ranges[] = {{exchange_begin_, update_begin_},
                                                  {update_end_, outputs_begin_}};
    PLIMSOLL_CUDA(cudaStreamWaitEvent(staging_stream_, taken_, 0));
    for (const auto& [begin, end] : ranges) {
      if (begin == end) continue;
      PLIMSOLL_CUDA(cudaMemcpyAsync(staged_at(begin), exchange(begin), static_cast<size_t>(end - begin),
                                    cudaMemcpyHostToDevice, staging_stream_));
    }
    PLIMSOLL_CUDA(cudaEventRecord(staged_, staging_stream_));
    sent_[index_of(Inputs::kBatch)].is_under_way = true;
    PLIMSOLL_CUDA(cudaStreamWaitEvent(device_.stream(), staged_, 0));
    for (const auto& [begin, end] : ranges) {
      map_.for_each_part(begin, end, [this](int64_t offset, std::byte* data, int64_t bytes) {
        PLIMSOLL_CUDA(cudaMemcpyAsync(data, staged_at(offset), static_cast<size_t>(bytes),
                                      cudaMemcpyDeviceToDevice, device_.stream()));
      });
    }
    PLIMSOLL_CUDA(cudaEventRecord(taken_, device_.stream()));
  }

  // Where the byte at this offset of the inputs waits.
  std::byte* staged_at(int64_t offset) const { return map_.at(staged_begin_) + (offset - exchange_begin_); }

  void wait_for_outputs() {
    if (std::exchange(outputs_under_way_, false)) PLIMSOLL_CUDA(cudaEventSynchronize(fetched_));
  }

  // Copies go to streams of their own, one for each direction. A copy starts when the ops before it are done,
  // and the ops' stream waits for it where the plan says; at the end of a segment none is under way.
  void give(const BoundProgram& program, Segment segment, Carried carried) {
    give_if(program,
            [&](const BoundOp& op) { return op.segment == segment && !is_idle(program, op, carried); });
  }

  template <typename IsGiven>
  void give_if(const BoundProgram& program, const IsGiven& is_given) {
    ModuleRange range;
    under_way_.clear();
    size_t num_copies = 0;
    for (const BoundOp& op : program.ops) {
      if (!is_given(op)) continue;
      range.enter(program, op);
      wait_for_copies(op.index);
      const OpPlan& plan = program.plan->ops[op.index];
      if (!plan.copies_to) {
        op.run();
        continue;
      }
      start_copy(op, *plan.copies_to, num_copies);
      under_way_.push_back({plan.copy_end, num_copies++});
    }
    wait_for_copies(std::numeric_limits<uint32_t>::max());
  }

  void start_copy(const BoundOp& op, Space to, size_t number) {
    cudaStream_t stream = copy_streams_[index_of(to)];
    PLIMSOLL_CUDA(cudaEventRecord(events_[2], device_.stream()));
    PLIMSOLL_CUDA(cudaStreamWaitEvent(stream, events_[2], 0));
    op.run();
    PLIMSOLL_CUDA(cudaEventRecord(copy_events_[number], stream));
  }

  void wait_for_copy(size_t number) {
    PLIMSOLL_CUDA(cudaStreamWaitEvent(device_.stream(), copy_events_[number], 0));
  }

  // Those that have to be over before the op at this position.
  void wait_for_copies(uint32_t position) {
    std::erase_if(under_way_, [&](const std::pair<uint32_t, size_t>& copy) {
      if (copy.first > position) return false;
      wait_for_copy(copy.second);
      return true;
    });
  }

  void make_copy_streams(const Plan& plan) {
    for (cudaStream_t& stream : copy_streams_) {
      PLIMSOLL_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    size_t most = 0;
    for (const std::optional<ProgramPlan>* program : {&plan.train, &plan.evaluate}) {
      if (!*program) continue;
      most = std::max(most, static_cast<size_t>(std::ranges::count_if(
                                (*program)->ops, [](const OpPlan& op) { return op.copies_to.has_value(); })));
    }
    copy_events_.resize(most);
    for (cudaEvent_t& event : copy_events_) {
      PLIMSOLL_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
    under_way_.reserve(most);
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
  std::vector<PinnedMemory> host_blocks_;  // the host's arena, or its buffers where they lie apart
  ArenaMap host_map_;
  PinnedMemory twin_;  // of [exchange_begin_, exchange_end_)
  int64_t exchange_begin_ = 0;
  int64_t outputs_begin_ = 0;
  int64_t exchange_end_ = 0;
  int64_t staged_begin_ = 0;  // of the place where the next batch waits
  int64_t update_begin_ = 0;  // of the inputs of Inputs::kUpdate
  int64_t update_end_ = 0;
  struct Sent {
    bool is_changed = false;    // by the host, since it was sent
    bool is_under_way = false;  // the host's copy is still read
  };
  Sent sent_[2] = {};               // by Inputs
  bool outputs_stale_ = false;      // something ran since they were fetched
  bool outputs_under_way_ = false;  // they were fetched, and nobody has waited for them
  cudaStream_t staging_stream_ = nullptr;
  cudaEvent_t staged_ = nullptr;  // the batch has left the host's memory
  cudaEvent_t taken_ = nullptr;   // and the place where it waits
  cudaEvent_t update_inputs_sent_ = nullptr;
  cudaEvent_t fetched_ = nullptr;
  std::list<std::pair<BoundProgram*, Segment>> kept_;  // captured, the one used the longest ago first
  cudaEvent_t events_[3] = {};                         // two for times, one that copies wait for
  cudaStream_t copy_streams_[kNumSpaces] = {};         // by the space that they copy to
  std::vector<cudaEvent_t> copy_events_;
  std::vector<std::pair<uint32_t, size_t>> under_way_;  // copies: the position that waits, and the event
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
