#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "device/cpu/arena.h"
#include "device/cpu/parallel.h"
#include "exec/backend.h"
#include "exec/cpu/collective_thread.h"
#include "exec/ops/bindings.h"
#include "kernels/matmul/matmul.h"
#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns the rate of the fastest of five copies of one half of the memory, at most 256 MiB, to the other half; 0 if the memory is so small
// that it would fit into the caches.
double copy_gb_per_s(std::span<std::byte> memory) {
  constexpr int64_t kMost = int64_t{256} << 20;
  constexpr int64_t kLeast = int64_t{32} << 20;
  const int64_t bytes = std::min(kMost, std::ssize(memory) / 2);
  if (bytes < kLeast) return 0;
  const int64_t piece = bytes / num_threads();
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(num_threads(), [&](int64_t i, int) {
      std::memcpy(memory.data() + bytes + i * piece, memory.data() + i * piece, static_cast<size_t>(piece));
    });
    best = std::max(best, 2e-9 * static_cast<double>(piece * num_threads()) / seconds_since(start));
  }
  return best;
}

// Returns the rate of the fastest of three products of n x n matrices, where n is at most 2048.
double best_product_gflops(std::span<std::byte> memory, const PlanRequest& request) {
  const DType dtype = product_type(request);
  if (dtype != DType::kF32 && dtype != DType::kBF16) return 0;
  MatmulProblem problem{.m = 2048,
                        .n = 2048,
                        .k = 2048,
                        .a = dtype,
                        .b = dtype,
                        .c = dtype,
                        .num_threads = request.device.num_threads,
                        .isa = request.device.isa};
  problem.cpu_products = preferred_cpu_products(problem);
  const int64_t n = ceiling_product_size(std::ssize(memory), matmul_scratch_bytes(problem), dtype, 2048);
  if (n == 0) return 0;
  problem.m = problem.n = problem.k = n;
  const auto bytes = static_cast<size_t>(n * n * dtype_bytes(dtype));
  std::byte* at = memory.data();
  fill_with_noise({at, 2 * bytes}, dtype);
  const std::unique_ptr<PreparedMatmul> product = prepare_matmul_cpu(problem);
  const MatmulArgs args{.a = {at, dtype},
                        .b = {at + bytes, dtype},
                        .bias = {},
                        .c = {at + 2 * bytes, dtype},
                        .scratch = {at + 3 * bytes, static_cast<size_t>(matmul_scratch_bytes(problem))}};
  product->run(args);
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    product->run(args);
    best = std::max(best, 1e-9 * static_cast<double>(matmul_flops(problem)) / seconds_since(start));
  }
  return best;
}

class CpuBackend final : public ExecutorBackend {
 public:
  CpuBackend(const Plan& plan, const ExecutorOptions& options)
      : plan_(plan),
        options_(options),
        arena_(plan.request.separate_buffers ? 1 : plan.arena_bytes, options.fill),
        map_(plan.request.separate_buffers
                 ? ArenaMap(plan, Space::kDevice, [this](int64_t bytes) { return take_block(bytes); })
                 : ArenaMap(arena_.data(), arena_.bytes())),
        host_arena_(take_host_arena(plan, options.fill)),
        host_map_(plan.request.separate_buffers
                      ? ArenaMap(plan, Space::kHost, [this](int64_t bytes) { return take_block(bytes); })
                      : ArenaMap(host_arena_ ? host_arena_->data() : nullptr, plan.host_arena_bytes)) {
    set_num_threads(plan.request.device.num_threads);
    flush_denormals_on_all_threads();
    if (const size_t most = most_collectives(plan); most > 0) collectives_.emplace(most);
    disk_ = make_disk_transfers(plan, options.disk, [](size_t) { return make_cpu_transfer_memory(); });
    if (!options.runs_ahead) return;
    for (const PersistentBuffer& buffer : plan.persistent) {
      if (buffer.storage == Storage::kOutput)
        fetched_[buffer.offset].resize(static_cast<size_t>(buffer.bytes));
    }
  }

  const ArenaMap& arena(Space space) const override { return space == Space::kDevice ? map_ : host_map_; }
  DiskTransfers* disk() const override { return disk_.get(); }
  std::byte* exchange(int64_t offset) const override { return map_.at(offset); }
  void before_host_writes(Inputs) override { wait(); }
  void before_host_reads() override { wait(); }
  void fetch_outputs() override {
    finish_fetch();
    if (options_.runs_ahead) queue_.push_back({});
  }
  const std::byte* fetched(int64_t offset) override {
    finish_fetch();
    return options_.runs_ahead ? fetched_.at(offset).data() : map_.at(offset);
  }
  bool is_fetching() const override { return std::ranges::any_of(queue_, &Enqueued::is_fetch); }
  void wait() override { finish_first(queue_.size()); }

  void read(Space space, int64_t offset, std::span<std::byte> bytes) override {
    wait();
    if (space == Space::kDisk) return disk_->read(bytes, offset);
    std::memcpy(bytes.data(), arena(space).at(offset), bytes.size());
  }
  void write(Space space, int64_t offset, std::span<const std::byte> bytes) override {
    wait();
    if (space == Space::kDisk) return disk_->write(bytes, offset);
    std::memcpy(arena(space).at(offset), bytes.data(), bytes.size());
  }
  void fill(Space space, int64_t offset, int64_t bytes, uint8_t value) override {
    wait();
    if (space == Space::kDisk) return disk_->fill(offset, bytes, value);
    arena(space).for_each_part(offset, offset + bytes, [value](int64_t, std::byte* data, int64_t part) {
      std::memset(data, value, static_cast<size_t>(part));
    });
  }

  void copy_weights(ConstView from, View to, int64_t count) override {
    wait();
    copy_weights_cpu({.weight = from, .low = to, .n = count});
  }

  std::function<void()> bind(const BindContext& context) const override { return bind_cpu(context); }

  void run(BoundProgram& program, Segment segment, DeferredWork deferred) override {
    if (options_.runs_ahead) {
      queue_.push_back({&program, segment, deferred});
    } else {
      run_now(program, segment, deferred);
    }
  }

  void run_timed(BoundProgram& program, Segment segment, DeferredWork deferred,
                 std::vector<OpTime>& times) override {
    wait();
    for (const BoundOp& op : program.ops) {
      if (op.segment != segment || is_idle(program, op, deferred)) continue;
      const auto start = std::chrono::steady_clock::now();
      op.run();
      if (disk_) disk_->wait_for_all();
      OpTime& time = times[op.index];
      time.milliseconds +=
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      add_cost(time, program, op.index);
    }
  }

  void run_deferred_updates(BoundProgram& program) override {
    wait();
    run_ops(program, [&](const BoundOp& op) { return program.plan->ops[op.index].is_deferred; });
  }

  Ceilings measure_ceilings() override {
    if (plan_.request.separate_buffers) return {};
    const std::span<std::byte> transient(arena_.data() + plan_.persistent_bytes,
                                         static_cast<size_t>(plan_.arena_bytes - plan_.persistent_bytes));
    const Ceilings ceilings{.product_gflops = best_product_gflops(transient, plan_.request),
                            .copy_gb_per_s = copy_gb_per_s(transient)};
    std::memset(transient.data(), options_.fill, transient.size());
    return ceilings;
  }

  int64_t written_bytes() override {
    return plan_.request.separate_buffers ? plan_.arena_bytes : arena_.written_bytes();
  }

 private:
  // Work that was enqueued on a simulated device (ExecutorOptions::runs_ahead): a segment (such as a forward pass), or a fetch of
  // the outputs. It is executed only when a caller waits for it, which is the latest time at which a real device may execute it.
  struct Enqueued {
    BoundProgram* program = nullptr;
    Segment segment = Segment::kForward;
    DeferredWork deferred = DeferredWork::kNothing;
    bool is_fetch() const { return program == nullptr; }
  };

  void finish_first(size_t count) {
    const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(count);
    for (auto it = queue_.begin(); it != end; ++it) {
      if (!it->is_fetch()) {
        run_now(*it->program, it->segment, it->deferred);
        continue;
      }
      for (auto& [offset, bytes] : fetched_) std::memcpy(bytes.data(), map_.at(offset), bytes.size());
    }
    queue_.erase(queue_.begin(), end);
  }

  // Executes all enqueued work up to and including the last fetch of the outputs.
  void finish_fetch() {
    const auto last = std::find_if(queue_.rbegin(), queue_.rend(), std::mem_fn(&Enqueued::is_fetch));
    finish_first(static_cast<size_t>(queue_.rend() - last));
  }

  void run_now(const BoundProgram& program, Segment segment, DeferredWork deferred) const {
    run_ops(program,
            [&](const BoundOp& op) { return op.segment == segment && !is_idle(program, op, deferred); });
  }

  template <typename Runs>
  void run_ops(const BoundProgram& program, const Runs& runs) const {
    if (options_.late_copies) return run_queued_late(program, runs);
    if (collectives_ || disk_) return run_with_queues(program, runs);
    for (const BoundOp& op : program.ops) {
      if (runs(op)) op.run();
    }
  }

  // Runs each copy and collective operation right before the op that waits for it, which is the latest time at which a device may run it.
  template <typename Runs>
  void run_queued_late(const BoundProgram& program, const Runs& runs) const {
    std::vector<const BoundOp*> under_way;
    const auto run_queued = [&](const BoundOp& queued) {
      queued.run();
      if (disk_) disk_->wait_for_all();
    };
    // The ops of one queue run in the order in which they were enqueued. Waiting for one of them therefore means running all before it.
    const auto finish = [&](uint32_t position) {
      std::array<size_t, kNumQueues> num_ending{};
      for (size_t i = 0; i < under_way.size(); ++i) {
        const OpPlan& plan = program.plan->ops[under_way[i]->index];
        if (plan.queue_end <= position) num_ending[index_of(plan.queue)] = i + 1;
      }
      size_t i = 0;
      std::erase_if(under_way, [&](const BoundOp* queued) {
        if (i++ >= num_ending[index_of(program.plan->ops[queued->index].queue)]) return false;
        run_queued(*queued);
        return true;
      });
    };
    for (const BoundOp& op : program.ops) {
      if (!runs(op)) continue;
      finish(op.index);
      if (program.plan->ops[op.index].is_queued()) {
        under_way.push_back(&op);
      } else {
        op.run();
      }
    }
    for (const BoundOp* queued : under_way) run_queued(*queued);
  }

  // Runs collective operations on a thread of their own, and transfers from and to a disk on other threads, while later ops run.
  template <typename Runs>
  void run_with_queues(const BoundProgram& program, const Runs& runs) const {
    for (const BoundOp& op : program.ops) {
      if (!runs(op)) continue;
      const OpPlan& plan = program.plan->ops[op.index];
      if (collectives_) collectives_->wait_before(op.index);
      if (disk_) disk_->wait_before(op.index);
      if (plan.queue == Queue::kCommunication) {
        collectives_->start(op.run, plan.queue_end);
      } else {
        op.run();
      }
    }
    if (collectives_) collectives_->wait_for_all();
    if (disk_) disk_->wait_for_all();
  }

  // Returns the largest number of collective operations of a program.
  static size_t most_collectives(const Plan& plan) {
    size_t most = 0;
    for (const ProgramPlan& program : plan.programs) {
      most = std::max(
          most, static_cast<size_t>(std::ranges::count(program.ops, Queue::kCommunication, &OpPlan::queue)));
    }
    return most;
  }

  static std::optional<CpuArena> take_host_arena(const Plan& plan, uint8_t fill) {
    if (plan.host_arena_bytes == 0 || plan.request.separate_buffers) return std::nullopt;
    return std::optional<CpuArena>(std::in_place, plan.host_arena_bytes, fill);
  }

  struct AlignedDelete {
    void operator()(std::byte* data) const { operator delete(data, kBlockAlignment); }
  };
  static constexpr std::align_val_t kBlockAlignment{64};

  std::byte* take_block(int64_t bytes) {
    blocks_.emplace_back(static_cast<std::byte*>(operator new(static_cast<size_t>(bytes), kBlockAlignment)));
    std::memset(blocks_.back().get(), options_.fill, static_cast<size_t>(bytes));
    return blocks_.back().get();
  }

  const Plan& plan_;
  ExecutorOptions options_;
  CpuArena arena_;
  // one memory block per buffer if the plan keeps buffers separate, as for sanitizers; otherwise empty
  std::vector<std::unique_ptr<std::byte, AlignedDelete>> blocks_;
  ArenaMap map_;
  // The outputs at the time of the last fetch, by their offsets. Only used with ExecutorOptions::runs_ahead.
  std::map<int64_t, std::vector<std::byte>> fetched_;
  std::vector<Enqueued> queue_;  // enqueued work that has not run yet, in order
  // The host's arena, if the plan has one and does not keep buffers separate. On a CPU it is a second block of memory.
  std::optional<CpuArena> host_arena_;
  ArenaMap host_map_;
  // The thread that runs collective operations; set if the plan has any.
  mutable std::optional<CollectiveThread> collectives_;
  std::unique_ptr<DiskTransfers>
      // Set if the plan stores values on a disk; destroyed before the arena, because its threads access the arena.
      disk_;
};

}  // namespace

std::unique_ptr<ExecutorBackend> make_cpu_backend(const Plan& plan, const ExecutorOptions& options) {
  return std::make_unique<CpuBackend>(plan, options);
}

}  // namespace plimsoll
