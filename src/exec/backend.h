// The interface between the executor and a device: memory for the arenas (one preallocated block per memory space), and a way to run ops
// whose kernels and addresses are fixed. There is a backend for the CPU and one for an NVIDIA GPU; the executor is the same for both. Not
// thread-safe: the executor is the only caller.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "device/cpu/arena.h"
#include "exec/arena_map.h"
#include "exec/bound_op.h"
#include "exec/tuning.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// The measured time of an op and its cost (FLOPs and bytes), summed over all runs while profiling is on.
struct OpTime {
  double milliseconds = 0;
  int64_t runs = 0;
  double flops = 0;
  double bytes = 0;
};

// A program whose ops are ready to run for one bucket (sizes of a batch for which the program is
// compiled): each op has its kernel, addresses and sizes.
struct BoundProgram {
  const ProgramPlan* plan = nullptr;
  Bucket bucket = {};
  std::vector<BoundOp> ops = {};
  // Data that a backend stores per segment (forward pass, backward pass or update), such as a captured CUDA graph. Only the backend knows
  // its type.
  std::array<std::shared_ptr<void>, kNumSegments> prepared = {};
  std::array<bool, kNumSegments> has_run = {};
};

// States whether the previous run left work, such as updates of weights, that the deferred ops (OpPlan::is_deferred) of this run must do.
enum class DeferredWork : uint8_t { kNothing, kSomething };

// The two groups of inputs, which the host writes at different times. kBatch: a batch and the state of the random numbers, before the
// forward pass. kUpdate: the learning rate and the step number, before the first part of the step (segment) that updates weights.
enum class Inputs : uint8_t { kBatch, kUpdate };
constexpr size_t index_of(Inputs inputs) {
  return static_cast<size_t>(inputs);
}

// The file on a disk in which the plan keeps some values. The executor creates the file, and the executor's destructor removes it.
struct DiskFile {
  FileSystem* files = nullptr;  // not owned; the caller of the executor owns it
  std::string path = {};
};

// Creates the file in which the plan keeps values on a disk, and the threads that read and write it. Returns null if the plan keeps no
// values on a disk. `make_memory` creates the buffers of the threads; its argument `most` is the largest number of transfers in one forward
// pass, backward pass or update. Errors: kDevice.
std::unique_ptr<DiskTransfers> make_disk_transfers(
    const Plan& plan, const DiskFile& disk,
    const std::function<std::unique_ptr<TransferMemory>(size_t most)>& make_memory);

// Options of an executor that do not affect the plan.
struct ExecutorOptions {
  uint8_t fill = kArenaPoison;       // the initial value of every byte of the arenas
  RankConnections connections = {};  // connections to the other ranks; not set if the run has one rank
  int gpu_ordinal = 0;               // number of the GPU to run on, among those that the process sees
  DiskFile disk = {};                // the file for values on a disk; set if the plan keeps any there
  // For tests, on a CPU: copies between memory spaces run as late as the plan allows; otherwise they run as early as possible.
  bool late_copies = false;
  // For tests, on a CPU: executes enqueued work only when the host waits for it, so that the host enqueues further steps in advance, as on
  // a GPU.
  bool runs_ahead = false;
};

class ExecutorBackend {
 public:
  virtual ~ExecutorBackend() = default;

  // Returns the map from offsets in the arena of this memory space to the addresses that ops use. Requires: the space is in memory, not on
  // a disk.
  virtual const ArenaMap& arena(Space space) const = 0;
  // Returns the transfers from and to the file that contains the values on a disk, or null if the plan has no such values.
  virtual DiskTransfers* disk() const { return nullptr; }
  // Returns the address at which the host writes the input, or reads the output, that has this offset in the arena. On a CPU the address
  // is in the arena. On a GPU it is in pinned host memory, which contains a copy of the inputs and outputs.
  virtual std::byte* exchange(int64_t offset) const = 0;
  // Waits until the inputs that the host wrote earlier have been copied, so that the host may overwrite them. Inputs are copied to
  // the device when the next segment (forward pass, backward pass or update) is enqueued. While the device still works on the
  // previous batch, the next batch is copied only into a staging buffer on the device, and stays there until its forward pass starts.
  virtual void before_host_writes(Inputs inputs) = 0;
  // Waits until the outputs are the results of all enqueued work, so that the host may read them.
  virtual void before_host_reads() = 0;
  // Enqueues a copy of the outputs to the host, after all work that is already enqueued. Does not wait.
  virtual void fetch_outputs() = 0;
  // Returns the output at this offset, with the value that the last fetch_outputs() copied. Waits
  // for this copy, but not for work that was enqueued after it.
  virtual const std::byte* fetched(int64_t offset) = 0;
  // Returns true if the copy of the last fetch_outputs() has not arrived, so that fetched() would wait.
  virtual bool is_fetching() const = 0;
  // Waits until the device has finished all enqueued work.
  virtual void wait() = 0;

  // Read, write and fill persistent memory that is not an input or output: weights, states, gradients. All three wait
  // until the device has finished.
  virtual void read(Space space, int64_t offset, std::span<std::byte> bytes) = 0;
  virtual void write(Space space, int64_t offset, std::span<const std::byte> bytes) = 0;
  virtual void fill(Space space, int64_t offset, int64_t bytes, uint8_t value) = 0;

  // Rounds fp32 weights into the 16-bit copies that matrix products read.
  virtual void copy_weights(ConstView from, View to, int64_t count) = 0;

  // Returns a function that runs the op with its kernel, addresses and sizes. Errors: kInternal if exec/ops/bindings.inc does not list the
  // op.
  virtual std::function<void()> bind(const BindContext& context) const = 0;
  // Runs the ops of one segment (forward pass, backward pass or update) in order. If the device supports it, copies between spaces run
  // concurrently with the ops. May return before the device has finished.
  virtual void run(BoundProgram& program, Segment segment, DeferredWork deferred) = 0;
  // Runs the ops of one segment (forward pass, backward pass or update) of a program without deferred ops, and enqueues a copy of the
  // outputs, as run() and fetch_outputs() do. If inputs and outputs are small, a GPU captures the ops and the copies of the inputs and
  // outputs as one CUDA graph, which shortens the time between two runs.
  virtual void run_and_fetch(BoundProgram& program, Segment segment) {
    run(program, segment, DeferredWork::kNothing);
    fetch_outputs();
  }
  // Runs the ops one after another, and adds their times to `times`, which is indexed by the op's number in the program.
  virtual void run_timed(BoundProgram& program, Segment segment, DeferredWork deferred,
                         std::vector<OpTime>& times) = 0;
  // Runs only the deferred ops (OpPlan::is_deferred), which finish the work of the previous run.
  virtual void run_deferred_updates(BoundProgram& program) = 0;

  // Measures the highest rates of the device (see Ceilings). Uses the part of the arena for transient
  // values, and fills it with its initial value afterwards. Cost: a second on a CPU, less on a GPU.
  virtual Ceilings measure_ceilings() = 0;

  // Measures the matrix products that are missing in the plan's tuning table, which contains the fastest library algorithm for each
  // product, and returns the completed table. Uses the arena, and fills it with its initial value afterwards. On a device without tuning,
  // returns the table unchanged.
  virtual TuningTable measure_products(const Plan& plan) { return plan.request.products.tuning; }

  // Returns the number of bytes from the start of the arena to the end of the last byte that was written. If every buffer has its own
  // block, returns the arena's size instead.
  virtual int64_t written_bytes() = 0;
};

// Makes the backend of a CPU: allocates its arena and fills it. Errors: kDevice if the system refuses the memory.
std::unique_ptr<ExecutorBackend> make_cpu_backend(const Plan& plan, const ExecutorOptions& options);
// Makes the backend of a GPU, and allocates and fills its arena. Errors: as make_cpu_backend(), and kDevice if the program was built
// without CUDA.
std::unique_ptr<ExecutorBackend> make_cuda_backend(const Plan& plan, const ExecutorOptions& options);

// Returns true if an op is skipped in this run because it finishes work of the previous run (OpPlan::is_deferred) and there is no such
// work.
bool is_idle(const BoundProgram& program, const BoundOp& op, DeferredWork deferred);

// Adds the FLOPs and bytes of one run of an op, as the op's OpSchema states them, to `time`.
void add_cost(OpTime& time, const BoundProgram& program, uint32_t index);

}  // namespace plimsoll
