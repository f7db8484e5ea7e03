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

// Returns the alignment of buffers in an arena: a cache line on a CPU; on a GPU the alignment that copy engines and libraries of matrix
// products prefer.
constexpr int64_t arena_alignment(KernelDevice device) {
  return device == KernelDevice::kCpu ? 64 : 256;
}
// Returns the number of bytes that a buffer takes in an arena, with the padding up to the next buffer.
constexpr int64_t bytes_in_arena(int64_t bytes, KernelDevice device) {
  const int64_t alignment = arena_alignment(device);
  return (bytes + alignment - 1) / alignment * alignment;
}

// Returns the number of bytes that a persistent buffer takes in a space. A buffer on a disk consists of whole blocks.
constexpr int64_t bytes_in_space(int64_t bytes, Space space, KernelDevice device) {
  return space == Space::kDisk ? rounded_up_to_blocks(bytes) : bytes_in_arena(bytes, device);
}

// How one op runs.
struct OpPlan {
  const KernelRow* kernel = nullptr;
  std::vector<Refusal> refused = {};  // faster rows that declined, and why
  int64_t scratch_offset = -1;        // offset from the start of the arena
  int64_t scratch_bytes = 0;          // scratch memory of the op in the largest bucket
  Queue queue = Queue::kCompute;      // if it is not kCompute, later ops run at the same time as this op
  uint32_t queue_end = 0;    // if not kCompute: this op has ended before the op at this position starts
  bool is_deferred = false;  // the op does work of the previous run, and is skipped if that work is done
  bool uses_disk = false;    // the op is a copy from or to a disk
  uint32_t kind = kNoKind;   // index of the kind of the op in OpKinds (graph/analysis/analysis.h)
  static constexpr uint32_t kNoKind = std::numeric_limits<uint32_t>::max();
  bool is_queued() const { return queue != Queue::kCompute; }
};

// The purpose of a transient buffer, in the terms of the anatomy of memory.
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
  ValueId root = kNoValue;  // kNoValue for scratch
  uint32_t op = 0;          // the op that uses the scratch memory
  Purpose purpose = Purpose::kTemporary;
  int64_t offset = 0;  // offset from the start of the arena
  int64_t bytes = 0;
  uint32_t first = 0;  // the position of the first op that uses it
  uint32_t last = 0;   // the position of the last one
  int64_t slot = 0;    // the slot that contains the buffer; see ProgramPlan::num_slots
};

// The choice of where updates run if optimizer states are on the host: in the forward pass of the next step or in the optimizer segment.
// Contains the estimated time of a step for each, which is infinity if there is no such plan.
struct UpdatePlace {
  bool is_at_use = false;
  double at_use_ms = std::numeric_limits<double>::infinity();  // infinity, or at least in_step_ms
  double in_step_ms = std::numeric_limits<double>::infinity();
};

// The slots of one chunk of a pipeline stage: their start in the arena, the bytes of one slot, and their number.
struct ChunkSlots {
  int64_t begin = 0;
  int64_t bytes = 0;
  int64_t count = 1;
};

// The buffers of a program in the arena of the host, and their bytes.
struct HostBuffers {
  std::vector<TransientBuffer> buffers = {};
  int64_t transient_bytes = 0;
  int64_t lower_bound_bytes = 0;  // no layout has fewer transient bytes
};

struct ProgramPlan {
  std::string name = {};
  Graph graph = Graph();
  Bucket bucket = {};  // the largest
  std::vector<Bucket> ladder =
      {};  // the buckets that a batch may run in, smallest first; the last is `bucket`
  // The offset of each value from the start of its space's arena; -1 for values without memory.
  std::vector<int64_t> offsets = {};
  std::vector<OpPlan> ops = {};
  std::vector<TransientBuffer> buffers = {};  // buffers in the device's arena
  HostBuffers host = {};
  // The number of micro-batches whose forward pass may have run and whose backward pass has not. Values that are saved for the
  // backward pass are in slots, one per micro-batch, which follow each other from slots_begin on; offsets are those in slot 0. With one
  // slot, the layout places these values like all others, and slot_bytes is 0.
  int64_t num_slots = 1;
  int64_t slot_bytes = 0;
  int64_t slots_begin = 0;
  // If a stage has several chunks, each chunk has its own slots; the slots of the first chunk come first. num_slots is then the largest
  // number of slots of a chunk, and slot_bytes the sum of the bytes of one slot of each.
  std::vector<ChunkSlots> chunk_slots = {};
  // Returns the slot of a micro-batch of a step in a chunk.
  int64_t slot_of(int64_t micro_batch, int64_t chunk) const {
    return micro_batch % (chunk_slots.empty() ? num_slots : chunk_slots[static_cast<size_t>(chunk)].count);
  }
  // Returns whether the slots of micro-batches contain this offset.
  bool is_in_slots(int64_t offset) const {
    const auto contains = [offset](int64_t begin, int64_t bytes) {
      return offset >= begin && offset < begin + bytes;
    };
    if (chunk_slots.empty()) return contains(slots_begin, num_slots * slot_bytes);
    return std::ranges::any_of(chunk_slots, [&](const ChunkSlots& chunk) {
      return contains(chunk.begin, chunk.count * chunk.bytes);
    });
  }
  // Returns the offset of a value in the slot of a micro-batch.
  int64_t in_slot(int64_t offset, int64_t slot) const {
    for (const ChunkSlots& chunk : chunk_slots) {
      if (offset >= chunk.begin && offset < chunk.begin + chunk.bytes) return offset + slot * chunk.bytes;
    }
    if (!chunk_slots.empty()) return offset;
    return offset >= slots_begin && offset < slots_begin + slot_bytes ? offset + slot * slot_bytes : offset;
  }
  int64_t transient_bytes = 0;
  int64_t lower_bound_bytes = 0;  // no layout has fewer transient bytes
  int64_t library_bytes = 0;      // the most that the library of one of its kernels allocates itself
  std::vector<PassRecord> passes = {};
  // If some ops are deferred to the next run of the program (OpPlan::is_deferred): the segment after which the next
  // run has to execute them.
  std::optional<Segment> deferred_after = {};
  // The segments that a GPU cannot capture as CUDA graphs, so that their ops are always started one by one: segments whose copies transfer
  // activations or access a disk, which threads of the host do, and segments in which a library sends values to other ranks. All other
  // segments are captured and replayed.
  std::vector<Segment> never_captured = {};
  bool is_captured(Segment segment) const {
    return std::ranges::find(never_captured, segment) == never_captured.end();
  }
  std::optional<UpdatePlace> update_place = {};  // set if the estimated times of both places were compared
};

// The names of the programs of a run.
inline constexpr std::string_view kTrainProgram = "train";
inline constexpr std::string_view kEvaluateProgram = "evaluate";
inline constexpr std::string_view kGenerateProgram = "generate";

// The programs of a plan by name, in the order in which they were added.
class Programs {
 public:
  // Requires: no program has this one's name.
  ProgramPlan& add(ProgramPlan program);
  // Returns null if there is no program of this name.
  const ProgramPlan* find(std::string_view name) const;
  ProgramPlan* find(std::string_view name);
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // Errors: kInternal if there is no program of this name.
  const ProgramPlan& at(std::string_view name) const;
  ProgramPlan& at(std::string_view name);

  // Returns the program that was added first: training, if the run trains. Requires: there is a program.
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

// Returns the ladder of token counts up to `largest`: steps of a sixteenth of a power of two, at least 16, so that
// less than 1/16 of a batch's rows are unused. If `smallest` is below 16, powers of two from there on come before them. Every bucket except
// the largest has room for the number of labels that usual_bucket() returns; the largest bucket has room for a label at each token. The
// tokens of each bucket are a multiple of `multiple`. Requires: so are those of `largest`.
std::vector<Bucket> make_ladder(const Bucket& largest, int64_t smallest = 16, double label_share = 1.0,
                                int64_t multiple = 1);
// Returns the bucket with the labels that a batch of largest.tokens tokens has at most, if each token has a label with the
// probability `label_share`: the mean, seven standard deviations and 16, rounded up to 16. Fewer than one of 1e11 batches have more labels;
// such a batch runs in the largest bucket, whose memory the plan reserves.
Bucket usual_bucket(const Bucket& largest, double label_share);
// Returns the smallest bucket that holds the tokens and the labels of a batch. Requires: the tokens fit into the largest bucket.
const Bucket& bucket_for(const ProgramPlan& program, const BatchSize& batch);

}  // namespace plimsoll
