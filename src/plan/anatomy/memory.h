// The anatomy of memory: every byte of a plan by purpose and phase, and where the peak is. purpose_name() in
// plan/compile/plan.h returns the names of the purposes that users know.
//
// Computed from the plan alone, without allocating any memory of the run. Thread-safe: pure functions.
//
// A run allocates its whole arena at the start. The column of a phase shows how much of the arena the phase
// uses, and for what:
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

// The phases of a run. Load: weights are read. Resume: optimizer states are read too. Save: both are
// written.
enum class Phase : uint8_t { kLoad, kResume, kTrain, kEvaluate, kGenerate, kSave };
// Returns a name such as "load", "resume", "train", "eval" or "save".
std::string_view phase_name(Phase phase);

using PurposeBytes = std::array<int64_t, kNumPurposes>;
constexpr size_t index_of(Purpose purpose) {
  return static_cast<size_t>(purpose);
}

struct PhaseMemory {
  Phase phase = Phase::kLoad;
  PurposeBytes by_purpose{};
  int64_t gaps_bytes =
      0;  // bytes between buffers at the peak of the phase, which layout adds to the sum of live buffers
  int64_t arena_bytes = 0;   // bytes of the arena that the phase uses
  int64_t unused_bytes = 0;  // bytes of the arena that the phase does not use
  int64_t constant_bytes = 0;
  int64_t total_bytes = 0;
};

// The op at which the most bytes of a program's transient region are live. If there are several, the first.
struct PeakPlace {
  Phase phase = Phase::kTrain;
  size_t position = 0;  // index of the op, starting at 0
  size_t num_ops = 0;
  std::string op = {};      // the op's name
  std::string output = {};  // the first output of the op
  std::string module = {};
  Segment segment = Segment::kForward;
  int64_t live_bytes = 0;  // transient
};

struct ConstantLine {
  std::string name = {};
  int64_t bytes = 0;
};

struct MemoryAnatomy {
  std::vector<PhaseMemory> phases =
      {};                             // in the order of Phase; contains kResume only if it differs from kLoad
  std::vector<PeakPlace> peaks = {};  // peak of each program, train first
  size_t largest = 0;                 // index into phases of the phase that needs the most
  std::vector<ConstantLine> constants = {};  // the parts of constant_bytes
  const PhaseMemory* find(Phase phase) const;
  const PeakPlace* peak_of(Phase phase) const;
};

// Cost: linear in buffers and ops.
MemoryAnatomy memory_anatomy(const Plan& plan);

// Returns the content of the host's arena by purpose: the persistent buffers there, and the region that programs
// use in turn, which contains values saved for the backward pass.
PurposeBytes host_purposes(const Plan& plan);

// The live bytes while each op of a program runs, by purpose. Persistent buffers count at every op;
// kConstant is not included.
struct MemoryTimeline {
  std::vector<PurposeBytes> by_op = {};
  std::vector<Segment> segments = {};
  size_t peak = 0;  // the position with the largest sum
};
MemoryTimeline memory_timeline(const Plan& plan, const ProgramPlan& program);

// Returns the types of the gradients that the global norm of a training program reads.
std::set<DType> gradient_dtypes(const ProgramPlan& train);

// Returns the purpose of a buffer that lives across programs.
Purpose purpose_of(Storage storage);

// Returns a module's name for tables: "layer 23, feed-forward" for "encoder.layer.23.feed_forward"; "the
// embeddings" stays as it is.
std::string describe_module(std::string_view module);

}  // namespace plimsoll
