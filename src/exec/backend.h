// What the executor needs of a device: memory for the arenas, and a way to start bound ops. There is a
// backend for the CPU and one for an NVIDIA GPU; the executor is the same for both. Not thread-safe: the
// executor is the only caller.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/arena_map.h"
#include "exec/bound_op.h"
#include "exec/ceilings.h"
#include "plan/anatomy/operations.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// What an op took, summed over runs, when profiling is on.
struct OpTime {
  double milliseconds = 0;
  int64_t runs = 0;
  double flops = 0;
  double bytes = 0;
};

// The ops of a program made ready for one bucket.
struct BoundProgram {
  const ProgramPlan* plan = nullptr;
  Bucket bucket = {};
  std::vector<BoundOp> ops = {};
  // What a backend keeps of each segment to start it at once; opaque to others.
  std::array<std::shared_ptr<void>, kNumSegments> prepared = {};
  std::array<bool, kNumSegments> has_run = {};
};

// Whether the run before left work for the deferred ops of this one (OpPlan::is_deferred).
enum class DeferredWork : uint8_t { kNothing, kSomething };

// The two groups of inputs that the host writes, each at its own time: a batch with its random counter before
// the forward pass; learning rate and step number before the first segment that updates.
enum class Inputs : uint8_t { kBatch, kUpdate };
constexpr size_t index_of(Inputs inputs) {
  return static_cast<size_t>(inputs);
}

class ExecutorBackend {
 public:
  virtual ~ExecutorBackend() = default;

  // The addresses of a space's arena as ops see them.
  virtual const ArenaMap& arena(Space space) const = 0;
  // The address at which the host reads or writes the input or output at this offset of the arena. On a CPU
  // it lies in the arena. On a GPU it lies in pinned memory that holds a copy of that part of the arena.
  virtual std::byte* exchange(int64_t offset) const = 0;
  // To be called before the host writes inputs: returns when those that it wrote before have left. Inputs go
  // to the device with the next segment. A batch is copied while the device still works on the one before, to
  // a place where it waits until its segment starts.
  virtual void before_host_writes(Inputs inputs) = 0;
  // To be called before the host reads outputs: returns when they are those of everything that was given.
  virtual void before_host_reads() = 0;
  // Starts to bring the outputs to the host, as they are when everything that was given so far is done. Does
  // not wait.
  virtual void fetch_outputs() = 0;
  // The output at this offset as of the last fetch_outputs(). Waits for that fetch, but not for what was
  // given since.
  virtual const std::byte* fetched(int64_t offset) = 0;
  // Whether fetched() would wait.
  virtual bool is_fetching() const = 0;
  // Returns when everything that was given to the device is done.
  virtual void wait() = 0;

  // Access to persistent memory that is no input or output: weights, states, gradients. All three wait until
  // the device is done.
  virtual void read(Space space, int64_t offset, std::span<std::byte> bytes) const = 0;
  virtual void write(Space space, int64_t offset, std::span<const std::byte> bytes) = 0;
  virtual void fill(Space space, int64_t offset, int64_t bytes, uint8_t value) = 0;

  // Rounds fp32 weights into the 16-bit copies that products read.
  virtual void copy_weights(ConstView from, View to, int64_t count) = 0;

  // Errors: kInternal for an op that has no binder.
  virtual std::function<void()> bind(const BindContext& context) const = 0;
  // Runs the ops of one segment in order. Where the device can, copies between spaces run beside the ops. May
  // return before the device is done.
  virtual void run(BoundProgram& program, Segment segment, DeferredWork deferred) = 0;
  // The same, one op after the other, adding to `times` (by index of op in the program).
  virtual void run_timed(BoundProgram& program, Segment segment, DeferredWork deferred,
                         std::vector<OpTime>& times) = 0;
  // Runs only the deferred ops (OpPlan::is_deferred).
  virtual void run_deferred_updates(BoundProgram& program) = 0;

  // The most that the device can do, measured. Works in the transient part of the arena, and fills it anew
  // afterwards. Cost: a second on a CPU, less on a GPU.
  virtual Ceilings measure_ceilings() = 0;

  // The plan's tuning table, completed by measuring the products that it lacks. Works in the arena, and fills
  // it anew afterwards. Returns the table as it is on a device whose products are not tuned.
  virtual TuningTable measure_products(const Plan& plan) { return plan.request.products.tuning; }

  // The end of the highest byte of the arena that was ever written, as observed; all of it where buffers lie
  // apart.
  virtual int64_t written_bytes() const = 0;
};

// Takes the arena and fills it. Errors: kDevice where memory or the device is refused.
std::unique_ptr<ExecutorBackend> make_cpu_backend(const Plan& plan, uint8_t fill);
// Errors: kDevice too where the program was built without CUDA.
std::unique_ptr<ExecutorBackend> make_cuda_backend(const Plan& plan, uint8_t fill);

// Whether an op has nothing to do in this run: it does what the run before leaves, and there is none of it.
bool is_idle(const BoundProgram& program, const BoundOp& op, DeferredWork deferred);

// Adds to `time` what one run of an op costs by its schema.
void add_cost(OpTime& time, const BoundProgram& program, uint32_t index);

}  // namespace plimsoll
