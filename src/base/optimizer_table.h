// The table of optimizers and the values of --optim. Pure data without a graph, because folders on which src/optim
// depends need them as well. The rows are in optimizer_table.inc; an optimizer is its row and its kernels
// (kernels/optimizer). Thread-safe: constants.
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

// The code that several optimizers share. Each frame has an op (graph/ops/update.h), code that adds the op to a graph (optim/optimizers.h)
// and code that passes arguments to kernels (exec/ops/optimizer_ops.cc).
enum class UpdateFrame : uint8_t {
  kPlain,     // states are floating-point numbers, one per element and kind of state
  kEightBit,  // states are 8-bit codes, with a largest magnitude per quantization block; small tensors have states as in kPlain
  kFactored,  // states are one number per row and one per column of a matrix, as in Adafactor
};

// A rule of thumb for the memory of one parameter's states, as it is commonly quoted.
struct StateRule {
  std::string_view variant;  // "SGD with momentum"
  std::string_view states;   // "4 momentum"; empty if the rule counts no states
  int bytes = 0;             // bytes per parameter
  int num_kinds = 0;         // number of kinds of states (optimizer_state_names()) to which the rule applies
};

// A method (plimsoll/methods.h) that selects an optimizer.
struct OptimizerMethod {
  std::string_view name;
  int position = 0;                  // position of this method among the methods of all optimizers; unique
  std::string_view optim;            // the value of --optim
  std::string_view optim_args = {};  // the value of --optim_args, if the method sets it
  std::string_view help = {};
};

struct OptimizerRow {
  OptimizerKind kind;
  std::string_view name;
  UpdateFrame frame;
  // The name in reports: "8-bit AdamW".
  std::string_view label;
  // The optimizer with the same update rule and fp32 states; the optimizer itself if its states are fp32.
  OptimizerKind family;
  // The values of --optim that select this optimizer, the usual one first.
  std::vector<std::string_view> names;
  // The values of --optim that select this optimizer with its states in host memory (on a GPU).
  std::vector<std::string_view> paged_names = {};
  // The kinds of optimizer states if all options have their defaults: "m" stands for the state "adamw.m" of a parameter.
  std::vector<std::string_view> states;
  // True if momentum is an option without which the optimizer has no state.
  bool has_optional_momentum = false;
  // True if the optimizer updates split weights (base/split_f32.h).
  bool takes_split_weights = false;
  // True if the update reads --adam_beta1 and --adam_beta2, or --adam_epsilon.
  bool reads_betas = false;
  bool reads_epsilon = false;
  double flops_per_element = 0.0;
  // The end of the error message for an unknown key of --optim_args: names the settings to which the other hyper-parameters belong.
  std::string_view other_arguments;
  std::vector<StateRule> rules;
  std::vector<OptimizerMethod> methods;

  // Returns true if momentum must not be 0, because without it there would be no state to store in 8 bits.
  bool needs_momentum() const { return has_optional_momentum && frame == UpdateFrame::kEightBit; }
};

// Returns the rows in the order of optimizer_table.inc.
std::span<const OptimizerRow> optimizer_rows();
const OptimizerRow& optimizer_row(OptimizerKind kind);
// Returns the row of that name ("adamw"), or null.
const OptimizerRow* find_optimizer_row(std::string_view name);

// A value of --optim: every name that Hugging Face's Trainer accepts (OptimizerNames in its training_args.py), with the
// optimizer that it selects or the reason for its refusal.
struct OptimizerName {
  std::string_view name;
  // The optimizer that this name selects, by the name of its row; empty if the name is refused.
  std::string_view runs = {};
  // The optimizer's states are stored in host memory; on a GPU they are copied to the device for each update.
  bool is_paged = false;
  // The reason for a refusal, and the most similar name that is accepted.
  std::string_view reason = {};
  std::string_view nearest = {};

  bool is_here() const { return !runs.empty(); }
};

// Returns the names of the rows, then those that store states in host memory, then those that are refused.
std::span<const OptimizerName> optimizer_names();
// Returns the entry of that name, or null.
const OptimizerName* find_optimizer_name(std::string_view name);

}  // namespace plimsoll
