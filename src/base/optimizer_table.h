// The table of optimizers and the values of --optim. They are plain data in src/base, because folders on which
// src/optim depends read them too. The rows are in optimizer_table.inc. An optimizer is defined by its row and its
// kernels (kernels/optimizer). Thread-safe: constants.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll {

#define PLIMSOLL_OPTIMIZER(kind, ...) kind,
enum class OptimizerKind : uint8_t {
#include "base/optimizer_table.inc"
};
#undef PLIMSOLL_OPTIMIZER

// A group of optimizers that share code: the op that represents their update (graph/ops/update.h), the code that adds it to a
// graph (optim/optimizers.h), and the code that passes its arguments to kernels (exec/ops/optimizer_ops.cc).
enum class UpdateFrame : uint8_t {
  kPlain,  // each state is a floating-point tensor with one number per element of the parameter
  // each state consists of 8-bit codes and the largest magnitude of each quantization block; small tensors have states as with kPlain
  kEightBit,
  kFactored,  // states are stored as one number per row and one per column of a matrix, as in Adafactor
};

// The commonly quoted rule of thumb for the memory that an optimizer needs per parameter.
struct StateRule {
  // the variant of the optimizer to which the rule applies, such as "SGD with momentum"
  std::string_view variant;
  // bytes of each state as text, such as "4 momentum"; empty if the variant has no states
  std::string_view states;
  int bytes = 0;      // bytes per parameter that the rule states for all states together
  int num_kinds = 0;  // the rule applies to an optimizer with this number of different states
};

// A method in the table of plimsoll/methods.h that selects this optimizer, and the arguments of a run that select it.
struct OptimizerMethod {
  std::string_view name;
  // position in the list of all methods that select an optimizer; every method has a different one
  int position = 0;
  std::string_view optim;            // the value of --optim that selects this method
  std::string_view optim_args = {};  // the value of --optim_args, if the method sets it
  std::string_view help = {};
};

struct OptimizerRow {
  OptimizerKind kind;
  std::string_view name;
  UpdateFrame frame;
  // The name of the optimizer in reports, such as "8-bit AdamW".
  std::string_view label;
  // The optimizer that has the same update rule with fp32 states. It is this optimizer itself if its states are fp32.
  OptimizerKind family;
  // The values of --optim that select this optimizer, the usual one first.
  std::vector<std::string_view> names;
  // The values of --optim that select this optimizer with its states in host memory (on a GPU).
  std::vector<std::string_view> paged_names = {};
  // The names of the optimizer's states if all options have their defaults. For example, "m" is the
  // state "adamw.m" of each parameter.
  std::vector<std::string_view> states;
  // True if the optimizer has no state unless the option momentum is given.
  bool has_optional_momentum = false;
  // True if the optimizer can update fp32 weights that are stored as a bf16 and 16 further bits (base/split_f32.h).
  bool takes_split_weights = false;
  // reads_betas: the update rule uses --adam_beta1 and --adam_beta2. reads_epsilon: the update rule uses --adam_epsilon.
  bool reads_betas = false;
  bool reads_epsilon = false;
  double flops_per_element = 0.0;
  // The end of the error message for an unknown key in --optim_args. It tells the user which arguments set the other
  // hyper-parameters.
  std::string_view other_arguments;
  std::vector<StateRule> rules;
  std::vector<OptimizerMethod> methods;

  // Returns true for an 8-bit optimizer whose only state is the momentum. The option momentum of such an optimizer must not be 0, because
  // the optimizer would then have no state.
  bool needs_momentum() const { return has_optional_momentum && frame == UpdateFrame::kEightBit; }
};

// Returns the table of optimizers, one row each, in the order of optimizer_table.inc.
std::span<const OptimizerRow> optimizer_rows();
const OptimizerRow& optimizer_row(OptimizerKind kind);
// Returns the row of the optimizer with this name, such as "adamw", or null if there is none.
const OptimizerRow* find_optimizer_row(std::string_view name);

// A value of --optim: every name that Hugging Face's Trainer accepts (OptimizerNames in its training_args.py), with the
// optimizer that it selects or the reason for its refusal.
struct OptimizerName {
  std::string_view name;
  // The optimizer that this name selects, by the name of its row; empty if the name is refused.
  std::string_view runs = {};
  // True if the optimizer's states are stored in host memory; on a GPU they are copied to the device for each update.
  bool is_paged = false;
  // If the name is refused: the reason, and the most similar value of --optim that is accepted.
  std::string_view reason = {};
  std::string_view nearest = {};

  bool is_here() const { return !runs.empty(); }
};

// Returns all values of --optim: first those of the rows of optimizer_table.inc, then their variants that store states in host memory, then
// the names of Trainer that are known but refused.
std::span<const OptimizerName> optimizer_names();
// Returns the entry of this value of --optim, or null if it is unknown.
const OptimizerName* find_optimizer_name(std::string_view name);

}  // namespace plimsoll
