// The anatomy of memory: every byte of a plan by purpose and phase, and where the peak is. purpose_name() in plan/compile/plan.h returns
// the names of the purposes in tables and messages.
//
// These figures are computed from the plan alone, without allocating any memory of the run. Thread-safe: pure functions.
//
// A run allocates its whole arena at the start. PhaseMemory states how much of the arena a phase of the run uses, and for what. These
// equations hold:
//  1. by_purpose (all but kConstant) + gaps_bytes = arena_bytes, and
//     arena_bytes + unused_bytes = Plan::arena_bytes.
//  2. by_purpose[kConstant] = constant_bytes = Plan::constant_bytes(), and
//     arena_bytes + constant_bytes = total_bytes.
//  3. The largest total_bytes of the phases is Plan::total_bytes().
// Sizes of buffers are rounded up to arena_alignment(), as in the arena.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

// The phases of a run. In kLoad, the weights are read; in kResume, the optimizer states as well; in kSave, both are written.
enum class Phase : uint8_t { kLoad, kResume, kTrain, kEvaluate, kGenerate, kSave };
// Returns the name of a phase, such as "load", "resume", "train", "eval" or "save".
std::string_view phase_name(Phase phase);

using PurposeBytes = std::array<int64_t, kNumPurposes>;
constexpr size_t index_of(Purpose purpose) {
  return static_cast<size_t>(purpose);
}

struct PhaseMemory {
  Phase phase = Phase::kLoad;
  PurposeBytes by_purpose{};
  // bytes of the arena between live buffers at the peak of the phase, which no buffer uses
  int64_t gaps_bytes = 0;
  int64_t arena_bytes = 0;   // bytes of the arena that the phase uses
  int64_t unused_bytes = 0;  // bytes of the arena that the phase does not use
  int64_t constant_bytes = 0;
  int64_t total_bytes = 0;
};

// The peak of a program: the op at which the most transient bytes are live, or the first of several ops with equally many live bytes.
struct PeakPlace {
  Phase phase = Phase::kTrain;
  size_t position = 0;  // index of the op in the program, starting at 0
  size_t num_ops = 0;
  std::string op = {};      // kind of the op at the peak
  std::string output = {};  // name of the op's first output
  std::string module = {};
  Segment segment = Segment::kForward;
  int64_t live_bytes = 0;  // live bytes of transient buffers at this op
};

struct ConstantLine {
  std::string name = {};
  int64_t bytes = 0;
};

struct MemoryAnatomy {
  // the memory of each phase, in the order of Phase; contains kResume only if it differs from kLoad
  std::vector<PhaseMemory> phases = {};
  std::vector<PeakPlace> peaks = {};  // the peak of each program, the training program first
  size_t largest = 0;                 // index into `phases` of the phase that needs the most memory
  // the parts of the memory outside the arena; their sum is constant_bytes
  std::vector<ConstantLine> constants = {};
  const PhaseMemory* find(Phase phase) const;
  const PeakPlace* peak_of(Phase phase) const;
};

// Cost: linear in the number of buffers and ops.
MemoryAnatomy memory_anatomy(const Plan& plan);

// Returns the bytes of the arena in host memory by purpose: its persistent buffers, and the region for transient buffers, which contains
// values saved for the backward pass.
PurposeBytes host_purposes(const Plan& plan);

// The live bytes while each op of a program runs, by purpose. Persistent buffers count as live at every op; memory outside the arena
// (kConstant) is not included.
struct MemoryTimeline {
  std::vector<PurposeBytes> by_op = {};
  std::vector<Segment> segments = {};
  size_t peak = 0;  // index of the op at which the sum over all purposes is largest
};
MemoryTimeline memory_timeline(const Plan& plan, const ProgramPlan& program);

// Returns the data types of the gradients from which a training program computes the global gradient norm.
std::set<DType> gradient_dtypes(const ProgramPlan& train);

// Returns the purpose of a persistent buffer, which lives across runs of programs.
Purpose purpose_of(Storage storage);

// Returns a readable name of a module for tables: "layer 23, feed-forward" for "encoder.layer.23.feed_forward". Names that are readable
// already, such as "the embeddings", are returned unchanged.
std::string describe_module(std::string_view module);

}  // namespace plimsoll
