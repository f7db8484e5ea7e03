#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "device/cpu/parallel.h"
#include "device/cuda/cuda_device.h"
#include "exec/backend.h"
#include "exec/cuda/captured_segments.h"
#include "exec/cuda/disk_memory_cuda.h"
#include "exec/cuda/host_exchange.h"
#include "exec/cuda/measure_products.h"
#include "exec/cuda/module_range.h"
#include "exec/cuda/side_streams.h"
#include "exec/ops/bindings.h"
#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {
namespace {

// While an object of this class exists, the host may wait for the GPU, and the GPU for other ranks. If a wait takes too long, a thread that
// watches the other ranks aborts the work of the GPU (Communicator::on_failure), and require_all_ranks() throws afterwards.
class WaitForRanks {
 public:
  explicit WaitForRanks(const RankConnections& connections) {
    if (connections.ranks != nullptr)
      wait_.emplace(connections.ranks->progress(), "the work of the GPU", RankProgress::Kind::kGpu);
  }

 private:
  std::optional<RankProgress::Wait> wait_;
};

class CudaBackend final : public ExecutorBackend {
 public:
  CudaBackend(const Plan& plan, const ExecutorOptions& options)
      : plan_(plan),
        fill_(options.fill),
        connections_(options.connections),
        device_(options.gpu_ordinal),
        arena_(device_, plan.request.separate_buffers ? 1 : plan.arena_bytes, options.fill),
        map_(plan.request.separate_buffers
                 ? ArenaMap(plan, Space::kDevice, [this](int64_t bytes) { return take_block(bytes); })
                 : ArenaMap(arena_.data(), arena_.bytes())),
        host_map_(plan.request.separate_buffers
                      ? ArenaMap(plan, Space::kHost, [this](int64_t bytes) { return take_host_block(bytes); })
                      : ArenaMap(take_host_arena(plan), plan.host_arena_bytes)),
        exchange_(plan, device_, map_, options.fill),
        side_(plan, device_.stream()),
        captured_(plan) {
    // The backend also computes on the host, for example the initial values of weights, with this number of threads.
    set_num_threads(plan.request.device.num_threads);
    disk_ = make_disk_transfers(plan, options.disk, [&](size_t most) {
      return std::make_unique<CudaTransferMemory>(options.gpu_ordinal, device_.stream(), most);
    });
    if (plan.request.separate_buffers) exchange_.fill_outputs(fill_);
    connections_.map_peers(arena_.data(), arena_.bytes());
  }
  // Waits until other stages have copied all messages from this GPU's memory, and ends the mapping of other GPUs' memory.
  ~CudaBackend() override {
    if (std::uncaught_exceptions() == 0) wait_until_messages_are_taken();
    connections_.unmap_peers();
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  const ArenaMap& arena(Space space) const override { return space == Space::kDevice ? map_ : host_map_; }
  DiskTransfers* disk() const override { return disk_.get(); }
  std::byte* exchange(int64_t offset) const override { return exchange_.at(offset); }
  void before_host_writes(Inputs inputs) override {
    const WaitForRanks wait(connections_);
    exchange_.before_host_writes(inputs);
  }
  void before_host_reads() override {
    const WaitForRanks wait(connections_);
    exchange_.before_host_reads();
    require_all_ranks();
  }
  void fetch_outputs() override {
    const WaitForRanks wait(connections_);
    exchange_.fetch_outputs();
  }
  const std::byte* fetched(int64_t offset) override {
    const WaitForRanks wait(connections_);
    const std::byte* data = exchange_.fetched(offset);
    require_all_ranks();
    return data;
  }
  bool is_fetching() const override { return exchange_.is_fetching(); }
  void wait() override {
    const WaitForRanks wait(connections_);
    device_.synchronize();
    require_all_ranks();
  }

  void read(Space space, int64_t offset, std::span<std::byte> bytes) override {
    const WaitForRanks wait(connections_);
    if (space == Space::kDisk) return disk_->read(bytes, offset);
    if (space == Space::kHost) {
      device_.synchronize();
      std::memcpy(bytes.data(), host_map_.at(offset), bytes.size());
      return;
    }
    device_.copy_to_host(bytes.data(), map_.at(offset), std::ssize(bytes));
    device_.synchronize();
  }
  void write(Space space, int64_t offset, std::span<const std::byte> bytes) override {
    const WaitForRanks wait(connections_);
    if (space == Space::kDisk) return disk_->write(bytes, offset);
    if (space == Space::kHost) {
      device_.synchronize();
      std::memcpy(host_map_.at(offset), bytes.data(), bytes.size());
      return;
    }
    device_.copy_to_device(map_.at(offset), bytes.data(), std::ssize(bytes));
    device_.synchronize();
  }
  void fill(Space space, int64_t offset, int64_t bytes, uint8_t value) override {
    const WaitForRanks wait(connections_);
    if (space == Space::kDisk) return disk_->fill(offset, bytes, value);
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
    return bind_cuda(
        context, context.queue() == Queue::kCompute ? device_.stream() : side_.stream_of(context.queue()));
  }

  // Replays the segment if it is captured as a CUDA graph, captures it at its second run, and otherwise enqueues it op by op. The first
  // forward pass after an evaluation or a checkpoint must skip the deferred ops, but the captured pass contains them. It is therefore
  // enqueued op by op and does not count as the first run. A segment that copies activations to or from the host is never captured: on
  // an H200, copies in a replayed graph wait for one another and reach only 49 to 51 GB/s on the link to the host instead of 55.
  void run(BoundProgram& program, Segment segment, DeferredWork deferred) override {
    // Enqueuing may block: the driver makes the host wait if too much work is enqueued on a stream that waits for another rank.
    const WaitForRanks wait(connections_);
    require_all_ranks();
    exchange_.begin_segment();
    const bool is_idle_in_part = segment == Segment::kForward && deferred == DeferredWork::kNothing &&
                                 program.plan->deferred_after.has_value();
    if (is_idle_in_part) return enqueue(program, segment, deferred);
    replay_or_enqueue(program, segment, Copies::kNone, [&] { enqueue(program, segment, deferred); });
  }

  void run_and_fetch(BoundProgram& program, Segment segment) override {
    if (!exchange_.has_short_copies()) return ExecutorBackend::run_and_fetch(program, segment);
    const WaitForRanks wait(connections_);
    require_all_ranks();
    exchange_.begin_short_run();
    replay_or_enqueue(program, segment, Copies::kIncluded, [&] {
      exchange_.enqueue_inputs();
      enqueue(program, segment, DeferredWork::kNothing);
      exchange_.enqueue_outputs();
    });
  }

  void run_timed(BoundProgram& program, Segment segment, DeferredWork deferred,
                 std::vector<OpTime>& times) override {
    const WaitForRanks wait(connections_);
    exchange_.begin_segment();
    ModuleRange range;
    for (const BoundOp& op : program.ops) {
      if (op.segment != segment || is_idle(program, op, deferred)) continue;
      range.enter(program, op);
      before_op_.record(device_.stream());
      if (program.plan->ops[op.index].uses_disk) {
        op.run();
        disk_->wait_for_all();
      } else if (program.plan->ops[op.index].is_queued()) {
        side_.begin();
        start_queued(program, op);
        side_.hold_back_for_all();
      } else {
        op.run();
      }
      after_op_.record(device_.stream());
      after_op_.wait();
      times[op.index].milliseconds += after_op_.ms_since(before_op_);
      add_cost(times[op.index], program, op.index);
    }
  }

  void run_deferred_updates(BoundProgram& program) override {
    const WaitForRanks wait(connections_);
    enqueue_if(program, [&](const BoundOp& op) { return program.plan->ops[op.index].is_deferred; });
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
    if (plan.request.separate_buffers) return plan.request.products.tuning;
    // Measurements use at most this number of bytes of the arena. Using more would only cost time,
    // because the bytes must be filled again.
    constexpr int64_t kMost = int64_t{6} << 30;
    const int64_t bytes = std::min(arena_.bytes(), kMost);
    TuningTable table = tune_products(plan, *make_cuda_measurer(device_, arena_.data(), bytes));
    device_.fill(arena_.data(), fill_, bytes);
    device_.synchronize();
    return table;
  }

  int64_t written_bytes() override {
    if (plan_.request.separate_buffers) return plan_.arena_bytes;
    return arena_.written_bytes(device_);
  }

 private:
  // Allocates a block without filling it, so that the initcheck tool of compute-sanitizer detects reads of bytes that were not written.
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

  // Waits until the other pipeline stages have copied the values that this stage sends from its arena, unless a rank has failed.
  void wait_until_messages_are_taken() {
    const auto [ranks, gpus, stages, messages] = connections_.pipeline;
    if (stages == nullptr && messages == nullptr) return;
    try {
      const WaitForRanks wait(connections_);
      for (int stage = 0; stages != nullptr && stage < stages->size(); ++stage) {
        if (stage != stages->rank()) stages->wait_until_taken(stage, device_.stream());
      }
      device_.synchronize();
      if (messages != nullptr) messages->wait_until_received();
    } catch (const Error&) {
      return;
    }
  }

  // Must be called after each wait, because the enqueued work may have been aborted when another rank failed. Errors: kDevice.
  void require_all_ranks() const { connections_.require_all_ranks(); }

  // Enqueues the ops of a segment (forward pass, backward pass or update). At its end, the stream waits for all ops of the
  // segment on other queues. The host waits for transfers from and to a disk: before it enqueues an op that needs them to have
  // ended, and at the end of the segment.
  void enqueue(const BoundProgram& program, Segment segment, DeferredWork deferred) {
    enqueue_if(program,
               [&](const BoundOp& op) { return op.segment == segment && !is_idle(program, op, deferred); });
  }

  // States whether the work of a segment (forward pass, backward pass or update) includes the copies of inputs and outputs.
  enum class Copies : bool { kNone, kIncluded };
  // Replays the work of a segment if it is captured as a CUDA graph, captures it at its second run, and otherwise enqueues it.
  template <typename Work>
  void replay_or_enqueue(BoundProgram& program, Segment segment, Copies copies, const Work& work) {
    CapturedSegment& captured = captured_segment(program, segment);
    const bool is_replayed = captured.has_run && program.plan->is_captured(segment) &&
                             (captured.is_captured() || captured_.make_room(device_));
    if (!is_replayed) {
      work();
      captured.has_run = true;
      return;
    }
    const bool has_copies = copies == Copies::kIncluded;
    if (!captured.is_captured()) {
      captured.capture(device_.stream(), work);
      captured.has_copies = has_copies;
    }
    PLIMSOLL_CHECK(
        captured.has_copies == has_copies,
        "a program must always be run with, or always without the copies of its inputs and outputs");
    captured_.touch(program, segment);
    captured.launch(device_.stream());
  }

  template <typename IsWanted>
  void enqueue_if(const BoundProgram& program, const IsWanted& is_wanted) {
    ModuleRange range;
    side_.begin();
    for (const BoundOp& op : program.ops) {
      if (!is_wanted(op)) continue;
      range.enter(program, op);
      side_.hold_back_before(op.index);
      if (disk_) disk_->wait_before(op.index);
      const OpPlan& plan = program.plan->ops[op.index];
      if (plan.is_queued() && !plan.uses_disk) {
        start_queued(program, op);
      } else {
        op.run();
      }
    }
    side_.hold_back_for_all();
    if (disk_) disk_->wait_for_all();
  }

  void start_queued(const BoundProgram& program, const BoundOp& op) {
    const OpPlan& plan = program.plan->ops[op.index];
    side_.start(plan.queue, plan.queue_end, op.run);
  }

  const Plan& plan_;
  uint8_t fill_;
  RankConnections connections_;
  CudaDevice device_;
  CudaArena arena_;
  // one memory block per buffer if the plan keeps buffers separate, as for sanitizers; otherwise empty
  std::vector<CudaArena> blocks_;
  ArenaMap map_;
  std::vector<PinnedMemory> host_blocks_;  // the host's arena, as one block or one block per buffer
  ArenaMap host_map_;
  HostExchange exchange_;
  SideStreams side_;
  CapturedSegments captured_;
  CudaEvent before_op_{CudaEvent::Times::kYes};
  CudaEvent after_op_{CudaEvent::Times::kYes};
  std::unique_ptr<DiskTransfers>
      // Set if the plan stores values on a disk; destroyed before the arenas, because its threads access them.
      disk_;
};

}  // namespace

std::unique_ptr<ExecutorBackend> make_cuda_backend(const Plan& plan, const ExecutorOptions& options) {
  return std::make_unique<CudaBackend>(plan, options);
}

}  // namespace plimsoll
