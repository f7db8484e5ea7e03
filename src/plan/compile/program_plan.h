// The plan of one program: its graph, the kernel of each op, and the offset of every value in its arena. Pure data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "graph/ir/graph.h"
#include "graph/ops/op.h"
#include "graph/passes/pass.h"
#include "kernels/catalog/catalog.h"

namespace plimsoll {

// Returns the alignment of buffers in an arena. On a CPU this is a cache line; on a GPU it is the alignment that copy engines and
// libraries of matrix products prefer.
constexpr int64_t arena_alignment(KernelDevice device) {
  return device == KernelDevice::kCpu ? 64 : 256;
}
// Returns the number of bytes that a buffer takes in an arena, with the padding up to the next buffer.
constexpr int64_t bytes_in_arena(int64_t bytes, KernelDevice device) {
  const int64_t alignment = arena_alignment(device);
  return (bytes + alignment - 1) / alignment * alignment;
}

// Returns the number of bytes that a persistent buffer takes in a memory space. On a disk, a buffer consists of whole blocks.
constexpr int64_t bytes_in_space(int64_t bytes, Space space, KernelDevice device) {
  return space == Space::kDisk ? rounded_up_to_blocks(bytes) : bytes_in_arena(bytes, device);
}

// The plan of one op: its kernel, its scratch memory, and the queue on which it runs.
struct OpPlan {
  const KernelRow* kernel = nullptr;
  std::vector<Refusal> refused = {};  // faster implementations that do not support the op, and why
  int64_t scratch_offset = -1;        // offset of the scratch memory from the start of the arena
  int64_t scratch_bytes = 0;          // scratch memory of the op for the largest batch
  Queue queue = Queue::kCompute;      // if not kCompute, the op runs at the same time as later ops
  uint32_t queue_end = 0;  // for other queues than kCompute: the op ends before the op at this position
  // True for an op that finishes work of the previous run of the program, and that is skipped if this work is already done.
  bool is_deferred = false;
  bool uses_disk = false;   // true for a copy from or to a disk
  uint32_t kind = kNoKind;  // index of the kind of the op in OpKinds (graph/analysis/analysis.h)
  static constexpr uint32_t kNoKind = std::numeric_limits<uint32_t>::max();
  bool is_queued() const { return queue != Queue::kCompute; }
};

// The use of a transient buffer, as in the tables of memory by purpose.
enum class Purpose : uint8_t {
  kWeights,
  kOptimizerStates,
  kGradients,
  kSaved,
  kTemporary,
  kFunctionality,
  kStaging,
  kConstant
};
inline constexpr int kNumPurposes = 8;
std::string_view purpose_name(Purpose purpose);

struct TransientBuffer {
  ValueId root = kNoValue;  // the value whose memory this is; kNoValue for scratch memory
  uint32_t op = 0;          // for scratch memory: index of the op that uses it
  Purpose purpose = Purpose::kTemporary;
  int64_t offset = 0;  // offset of the buffer from the start of the arena
  int64_t bytes = 0;
  uint32_t first = 0;  // position of the first op that uses the buffer
  uint32_t last = 0;   // position of the last op that uses the buffer
  int64_t slot = 0;    // number of the slot that contains the buffer; see ProgramPlan::num_slots
};

// The decision where updates run if optimizer states are on the host: in the forward pass of the next step, or in the optimizer segment at
// the end of a step. If updates run in the forward pass, it contains the estimated step time of both possibilities.
struct UpdatePlace {
  bool is_at_use = false;
  // step time with updates in the forward pass; infinity unless is_at_use
  double at_use_ms = std::numeric_limits<double>::infinity();
  double in_step_ms = std::numeric_limits<double>::infinity();
};

// The slots of one chunk of a pipeline stage: the offset in the arena at which they start, the bytes of one slot, and their number. A
// slot contains the activations of one micro-batch.
struct ChunkSlots {
  int64_t begin = 0;
  int64_t bytes = 0;
  int64_t count = 1;
};

// The buffers of a program in the arena in host memory, and their bytes.
struct HostBuffers {
  std::vector<TransientBuffer> buffers = {};
  int64_t transient_bytes = 0;
  int64_t lower_bound_bytes = 0;  // lower bound of transient_bytes for any layout
};

struct ProgramPlan {
  std::string name = {};
  Graph graph = Graph();
  Bucket bucket = {};  // the largest batch size of the program
  // the sizes to which batches are rounded up, smallest first; the last is `bucket`
  std::vector<Bucket> ladder = {};
  // The offset of each value in the arena of its memory space; -1 for values without memory.
  std::vector<int64_t> offsets = {};
  std::vector<OpPlan> ops = {};
  std::vector<TransientBuffer> buffers = {};  // buffers in the arena of the device
  HostBuffers host = {};
  // The number of micro-batches for which values saved for the backward pass exist at the same time. These values are in slots, one per
  // micro-batch, which follow each other from slots_begin on; offsets are those in slot 0. With one slot, the layout places these values
  // like all others, and slot_bytes is 0.
  int64_t num_slots = 1;
  int64_t slot_bytes = 0;
  int64_t slots_begin = 0;
  // If a stage has several chunks, each chunk has its own slots; the slots of the first chunk come first. num_slots is then the largest
  // number of slots of a chunk, and slot_bytes the sum, over the chunks, of the bytes of one slot.
  std::vector<ChunkSlots> chunk_slots = {};
  // Returns the number of the slot (memory of one micro-batch) that a micro-batch of a step uses in a chunk of layers.
  int64_t slot_of(int64_t micro_batch, int64_t chunk) const {
    return micro_batch % (chunk_slots.empty() ? num_slots : chunk_slots[static_cast<size_t>(chunk)].count);
  }
  // Returns true if the offset is in one of the slots for micro-batches.
  bool is_in_slots(int64_t offset) const {
    const auto contains = [offset](int64_t begin, int64_t bytes) {
      return offset >= begin && offset < begin + bytes;
    };
    if (chunk_slots.empty()) return contains(slots_begin, num_slots * slot_bytes);
    return std::ranges::any_of(chunk_slots, [&](const ChunkSlots& chunk) {
      return contains(chunk.begin, chunk.count * chunk.bytes);
    });
  }
  // Converts the offset of a value in slot 0 to the offset of the same value in the slot of another micro-batch.
  int64_t in_slot(int64_t offset, int64_t slot) const {
    for (const ChunkSlots& chunk : chunk_slots) {
      if (offset >= chunk.begin && offset < chunk.begin + chunk.bytes) return offset + slot * chunk.bytes;
    }
    if (!chunk_slots.empty()) return offset;
    return offset >= slots_begin && offset < slots_begin + slot_bytes ? offset + slot * slot_bytes : offset;
  }
  int64_t transient_bytes = 0;
  int64_t lower_bound_bytes = 0;  // lower bound of transient_bytes for any layout
  // the largest number of bytes that the library of one of the kernels allocates by itself
  int64_t library_bytes = 0;
  std::vector<PassRecord> passes = {};
  // If a run of the program leaves work to ops of its next run (OpPlan::is_deferred): the segment (forward, backward or optimizer) after
  // which this work is pending.
  std::optional<Segment> deferred_after = {};
  // The segments that a GPU cannot capture as CUDA graphs, so that it always starts their ops one by one. These are segments with copies
  // of activations or from a disk, which host threads execute, and segments in which a library sends values to other ranks.
  std::vector<Segment> never_captured = {};
  bool is_captured(Segment segment) const {
    return std::ranges::find(never_captured, segment) == never_captured.end();
  }
  // The decision where updates run. Only set if optimizer states are offloaded and the planner has made this decision.
  std::optional<UpdatePlace> update_place = {};
};

// The names that programs of a run may have.
inline constexpr std::string_view kTrainProgram = "train";
inline constexpr std::string_view kEvaluateProgram = "evaluate";
inline constexpr std::string_view kGenerateProgram = "generate";

// The programs of a plan by name, in the order in which they were added.
class Programs {
 public:
  // Adds a program. Requires: there is no program with its name.
  ProgramPlan& add(ProgramPlan program);
  // Returns the program with this name, or null if there is none.
  const ProgramPlan* find(std::string_view name) const;
  ProgramPlan* find(std::string_view name);
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // Returns the program with this name. Errors: kInternal if there is none.
  const ProgramPlan& at(std::string_view name) const;
  ProgramPlan& at(std::string_view name);

  // Returns the program that was added first, which is the training program if the run trains. Requires: there is a program.
  const ProgramPlan& first() const { return list_.front(); }
  ProgramPlan& first() { return list_.front(); }

  size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  auto begin() { return list_.begin(); }
  auto end() { return list_.end(); }

 private:
  std::vector<ProgramPlan> list_;
};

// Returns the tensors that a batch for this program must contain: one for each input that the host fills from the batch's tensor of the
// same name, in the order of the inputs. Labels that are numbers are fp32.
std::vector<BatchTensorSpec> batch_tensors(const Graph& graph);

// Returns the ladder: the buckets that a program is compiled for, up to `largest`. Token counts increase in steps of a sixteenth of a
// power of two, at least 16, so that less than 1/16 of a batch's rows are unused. If `smallest` is below 16, the ladder begins with the
// buckets of `smallest`, 2 `smallest`, 4 `smallest` ... tokens below 16. Every bucket except the largest has room for the number of labels
// that usual_bucket() returns; the largest bucket has room for a label at each token. The number of tokens of each bucket is a multiple of
// `multiple`. Requires: the number of tokens of `largest` is a multiple of `multiple` too.
std::vector<Bucket> make_ladder(const Bucket& largest, int64_t smallest = 16, double label_share = 1.0,
                                int64_t multiple = 1);
// Returns a bucket with as many tokens as `largest` and room for fewer labels. If each token has a label with the probability
// `label_share`, the number of labels of a batch almost never exceeds that of the bucket: the mean, plus seven standard deviations, plus
// 16, rounded up to 16. Fewer than one of 1e11 batches have more labels; such a batch runs in the largest bucket, whose memory the plan
// reserves.
Bucket usual_bucket(const Bucket& largest, double label_share);
// Returns the smallest bucket that has room for the tokens and the labels of a batch. Requires: the tokens fit into the largest bucket.
const Bucket& bucket_for(const ProgramPlan& program, const BatchSize& batch);

}  // namespace plimsoll
