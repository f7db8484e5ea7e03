// Parts of the anatomy of a plan: memory by module, bytes per parameter, saved and recomputed values, and advice on widths. Pure
// functions; thread-safe. memory.h has the memory by category and operations.h the operations by group.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

// Memory by module of the model: weights, states, gradients and saved activations. Pure; thread-safe.
//
// Invariants: weights, states and staging add up over the modules to the persistent buffers of the plan. A field *_at_most is the highest
// sum of a module at any op of the step; these fields do not add up to a peak of the plan, because modules peak at different ops.

struct ModuleMemory {
  std::string module = {};  // as the graph names it; "" for values that belong to no module
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t state_bytes = 0;
  int64_t staging_bytes = 0;
  int64_t gradient_bytes_at_most = 0;
  int64_t saved_bytes_at_most = 0;
  int64_t temporary_bytes_at_most = 0;  // includes the scratch memory of kernels
};

// Returns the modules in the order in which the model uses them. Cost: linear in buffers, plus a sort.
std::vector<ModuleMemory> module_memory(const Plan& plan);

// Bytes per parameter: the figures of the plan, the rules of thumb that people quote, and the reasons for the differences. Pure;
// thread-safe.

// A rule of thumb for bytes per parameter. No such rule counts activations, temporary buffers or the memory outside the arena.
struct QuotedFormula {
  std::string name = {};     // "AdamW in fp32"
  std::string made_of = {};  // "4 weights + 4 gradients + 8 moments"
  double bytes_per_parameter = 0;
  int64_t bytes = 0;     // bytes by the formula for this model
  bool applies = false;  // true for the formula that people would use for this plan
};

struct ParameterBytes {
  int64_t num_parameters = 0;
  // Bytes per parameter of the plan at its peak.
  double weights = 0;
  double states = 0;
  double gradients = 0;
  double sum() const { return weights + states + gradients; }
  double activations = 0;  // saved, temporary and gaps at the peak
  std::vector<QuotedFormula> quoted = {};
  std::string difference = {};  // one or more sentences that compare the formula that applies with this plan
};

ParameterBytes parameter_bytes(const Plan& plan);

// The values that the forward pass keeps for the backward pass. Pure; thread-safe.

// Saved values that differ only in the number of their layer.
struct SavedKind {
  std::string values = {};    // "encoder.layer.*.attention.context"
  std::string producer = {};  // the op that computes the values
  std::string type = {};      // "f32[T,1024]"
  int64_t count = 0;
  int64_t bytes = 0;
};

// Returns the saved values that are live at the peak of training, largest first. Their bytes add up to the
// saved bytes of that phase. Empty for a plan that does not train.
std::vector<SavedKind> saved_kinds(const Plan& plan);

// The values that the backward pass recomputes, by block of the model: bytes kept, bytes recomputed, and
// the cost. Pure; thread-safe. Times are the estimates of operations.h.

struct Recomputation {
  std::string block = {};   // "encoder.layer.3"; the module for values outside of blocks
  int64_t kept_bytes = 0;   // saved for the backward pass, per micro-batch
  int64_t again_bytes = 0;  // recomputed values
  double flops = 0;         // FLOPs per step
  double ms = 0;
  std::map<std::string, int> ops = {};  // number of times that each op runs again per micro-batch
};

// Returns blocks in the order of the forward pass, without blocks that neither keep nor recompute values.
// Empty for a plan that does not train.
std::vector<Recomputation> recomputation(const Plan& plan);

// Finds widths of a model with which tensor cores are slow, and predicts the gain of wider ones. This is the usual advice on multiples of 8
// and 64, together with its effect. Pure functions of the plan; thread-safe.

struct WidthAdvice {
  std::string name = {};     // the name in config.json
  std::string numbers = {};  // the type of the numbers that tensor cores multiply: "bf16"
  int64_t width = 0;
  int64_t multiple =
      0;  // the number that the width is not a multiple of: 8 or 64 in 16 bits, 4 or 32 in tf32
  int64_t better =
      0;  // a larger width: a multiple of the GPU's preferred number, or of a smaller number if that gains more
  double gain = 1.0;  // predicted time of a step divided by the predicted time with the better width
};

// Returns an empty list on a CPU, for matrix products in fp32 and tf32x3, and if no wider model is predicted to be faster. Multiples of 64
// (32 in tf32) are advised on GPUs of compute capability 8.0, 9.0 and 10.x, for which NVIDIA's guide and measurements show a gain. Cost:
// one or two plans for each width that is not a multiple yet.
std::vector<WidthAdvice> width_advice(const Plan& plan);

// Checks the number of sequences of a batch, and their length if all have the same length. If matrix products use 16-bit or tf32 numbers,
// and the number or the length is not a multiple of 8, returns a sentence that explains why this is no disadvantage in Plimsoll. Returns ""
// otherwise.
std::string describe_batch_shape(const PlanRequest& request);

// Returns the advice as one line of text.
std::string format_advice(const WidthAdvice& advice);

}  // namespace plimsoll
