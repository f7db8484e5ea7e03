// Where a plan runs: the memory of its arena and the way in which bound ops are started. The executor is the
// same on every device; this is what differs. Not thread-safe: one caller, the executor.
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
#include "plan/build/plan.h"

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

// Whether the run before left something for ops of this one (OpPlan::of_last_run).
enum class Carried : uint8_t { kNothing, kSomething };

// What the host hands over together: a batch with its random counter, before the forward pass; and learning
// rate and step, before the first segment that updates.
enum class Inputs : uint8_t { kBatch, kUpdate };
constexpr size_t index_of(Inputs inputs) {
  return static_cast<size_t>(inputs);
}

class ExecutorBackend {
 public:
  virtual ~ExecutorBackend() = default;

  // Where ops see the bytes of a space's arena.
  virtual const ArenaMap& arena(Space space) const = 0;
  // Where the host reads and writes the input or output at this offset of the arena. On a CPU that is the
  // arena; on a GPU its twin in pinned memory, see before_host_writes() and before_host_reads().
  virtual std::byte* exchange(int64_t offset) const = 0;
  // To be called before the host changes inputs, and before it reads outputs of all that ran. Inputs go to
  // the device with the next segment: a batch at once, beside what runs there, to wait in a place of its own
  // until its segment starts.
  virtual void before_host_writes(Inputs inputs) = 0;
  virtual void before_host_reads() = 0;
  // Begins to bring the outputs to the host as they are when what was given before is done; returns before.
  virtual void fetch_outputs() = 0;
  // The output at this offset as of the last fetch_outputs(), which it waits for, unlike what was given
  // since.
  virtual const std::byte* fetched(int64_t offset) = 0;
  // Whether it would wait.
  virtual bool is_fetching() const = 0;
  // Returns when all that was given is done.
  virtual void wait() = 0;

  // Persistent memory that is no input or output: weights, states, gradients. Both wait.
  virtual void read(Space space, int64_t offset, std::span<std::byte> bytes) const = 0;
  virtual void write(Space space, int64_t offset, std::span<const std::byte> bytes) = 0;
  virtual void fill(Space space, int64_t offset, int64_t bytes, uint8_t value) = 0;

  // Rounds fp32 weights into the 16-bit copies that products read.
  virtual void copy_weights(ConstView from, View to, int64_t count) = 0;

  // Errors: kInternal for an op that has no binder.
  virtual std::function<void()> bind(const BindContext& context) const = 0;
  // Runs the ops of one segment in order, copies between spaces beside them where the device can. May return
  // before the device is done.
  virtual void run(BoundProgram& program, Segment segment, Carried carried) = 0;
  // The same, one op after the other, adding to `times` (by index of op in the program).
  virtual void run_timed(BoundProgram& program, Segment segment, Carried carried,
                         std::vector<OpTime>& times) = 0;
  // Runs the ops that go on with what the last run left, and nothing else of the program.
  virtual void finish_last_run(BoundProgram& program) = 0;

  // What the device can do at most, measured in the transient part of the arena, which is filled anew
  // afterwards. Cost: a second on a CPU, less on a GPU.
  virtual Ceilings measure_ceilings() = 0;

  // The plan's tuning table with what it lacks, measured in the arena's memory, which is filled anew after
  // that. Where products are not tuned: the table as it is.
  virtual TuningTable measure_products(const Plan& plan) { return plan.request.tuning; }

  // The end of the highest byte of the arena that was ever written, as observed; all of it where buffers lie
  // apart.
  virtual int64_t written_bytes() const = 0;
};

// Takes the arena and fills it. Errors: kDevice where memory or the device is refused.
std::unique_ptr<ExecutorBackend> make_cpu_backend(const Plan& plan, uint8_t fill);
// Errors: kDevice too where the program was built without CUDA.
std::unique_ptr<ExecutorBackend> make_cuda_backend(const Plan& plan, uint8_t fill);

// Whether an op has nothing to do, for it would go on with what no run has left.
bool is_idle(const BoundProgram& program, const BoundOp& op, Carried carried);

// Adds to `time` what one run of an op costs by its schema.
void add_cost(OpTime& time, const BoundProgram& program, uint32_t index);

}  // namespace plimsoll
