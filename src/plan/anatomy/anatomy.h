// Computes tables and advice from a plan: memory by module, bytes per parameter, values that are saved and recomputed, and advice on layer
// widths. memory.h has the memory by purpose, and operations.h the operations by group. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

// Memory by module of the model: weights, optimizer states, gradients and saved activations. Pure; thread-safe.
//
// Invariants: summed over the modules, the fields weight_bytes, state_bytes and staging_bytes are the bytes of the persistent buffers of
// the plan. A field whose name ends with _at_most is the largest number of live bytes of the module at any op of the step. Its sum over the
// modules is not a peak of the plan, because modules peak at different ops.

struct ModuleMemory {
  std::string module = {};  // name of the module in the graph; "" for values that belong to no module
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t state_bytes = 0;
  int64_t staging_bytes = 0;
  int64_t gradient_bytes_at_most = 0;
  int64_t saved_bytes_at_most = 0;
  int64_t temporary_bytes_at_most = 0;  // Temporary buffers, including the scratch memory of kernels.
};

// Returns the modules in the order in which the model uses them. Cost: linear in the number of buffers, plus a sort.
std::vector<ModuleMemory> module_memory(const Plan& plan);

// Compares the bytes per parameter of a plan with common rules of thumb, and explains the differences. Pure; thread-safe.

// A rule of thumb for bytes per parameter. No such rule counts activations, temporary buffers or the memory outside the arena.
struct QuotedFormula {
  std::string name = {};     // name of the rule of thumb, for example "AdamW in fp32"
  std::string made_of = {};  // the terms of the rule, for example "4 weights + 4 gradients + 8 moments"
  double bytes_per_parameter = 0;
  int64_t bytes = 0;     // bytes that the rule gives for this model
  bool applies = false;  // true for the rule of thumb that people would apply to the run of this plan
};

struct ParameterBytes {
  int64_t num_parameters = 0;
  // Bytes per parameter that the plan needs at its peak, by kind of value.
  double weights = 0;
  double states = 0;
  double gradients = 0;
  double sum() const { return weights + states + gradients; }
  double activations = 0;  // saved and temporary values, and gaps between buffers, per parameter
  std::vector<QuotedFormula> quoted = {};
  // explains in one or more sentences why the plan differs from the rule of thumb that applies
  std::string difference = {};
};

ParameterBytes parameter_bytes(const Plan& plan);

// Lists the values that the forward pass keeps for the backward pass. Pure; thread-safe.

// Saved values that have the same name in different layers, apart from the number of the layer.
struct SavedKind {
  std::string values = {};    // their name with * for the layer number: "encoder.layer.*.attention.context"
  std::string producer = {};  // the op that computes the values
  std::string type = {};      // element type and shape: "f32[T,1024]" for T tokens
  int64_t count = 0;
  int64_t bytes = 0;
};

// Returns the saved values that are live at the peak of the training phase, largest first. Their bytes add up to the saved bytes that
// memory.h states for this phase. Returns none for a plan that does not train.
std::vector<SavedKind> saved_kinds(const Plan& plan);

// Lists, for each block of the model, the bytes that are kept for the backward pass, the bytes that the backward pass recomputes instead,
// and the time of recomputation, as estimated by operations.h. Pure; thread-safe.

struct Recomputation {
  // for example "encoder.layer.3"; for values outside of blocks, the name of their module
  std::string block = {};
  int64_t kept_bytes = 0;   // bytes of values saved for the backward pass, per micro-batch
  int64_t again_bytes = 0;  // bytes of values that the backward pass recomputes
  double flops = 0;         // floating-point operations of recomputation per step
  double ms = 0;
  // for each kind of op, how often recomputation runs it per micro-batch
  std::map<std::string, int> ops = {};
};

// Returns the blocks in the order of the forward pass, except blocks that neither keep nor recompute values. Returns none for a plan that
// does not train.
std::vector<Recomputation> recomputation(const Plan& plan);

// Finds widths of a model (such as the hidden size) with which tensor cores are slow, and predicts how much faster a slightly wider model
// would be. Multiples of 8 and 64 are the usual advice. Pure functions of the plan; thread-safe.

struct WidthAdvice {
  std::string name = {};     // name of the width in config.json, such as "hidden_size"
  std::string numbers = {};  // type of the numbers that tensor cores multiply, such as "bf16"
  int64_t width = 0;
  // The width should be a multiple of this number: 8 or 64 for 16-bit types, 4 or 32 for tf32.
  int64_t multiple = 0;
  // The proposed larger width: a multiple of the number that the GPU prefers, or of a smaller number if that is predicted to be
  // faster.
  int64_t better = 0;
  double gain = 1.0;  // speedup: predicted step time now, divided by that with the proposed width
};

// Returns advice about each width with which a wider model is predicted to be faster. The list is empty on a CPU, for matrix products in
// fp32 and tf32x3, and if no wider model is predicted to be faster. Multiples of 64 (32 in tf32) are advised on GPUs of compute capability
// 8.0, 9.0 and 10.x, for which NVIDIA's guide and measurements show a gain. Cost: one or two plans for each width that is not such a
// multiple.
std::vector<WidthAdvice> width_advice(const Plan& plan);

// Explains batch sizes that are not a multiple of 8. If matrix products use 16-bit or tf32 numbers, and the number of sequences of a
// batch or their common length is not a multiple of 8, returns a sentence that says why this is no disadvantage in Plimsoll. Returns ""
// otherwise.
std::string describe_batch_shape(const PlanRequest& request);

// Returns the advice about a width as one line of text.
std::string format_advice(const WidthAdvice& advice);

}  // namespace plimsoll
