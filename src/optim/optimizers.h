// The table of optimizers: one row per optimizer contains everything that other folders ask about it. An optimizer is
// this row, its update (plain_updates.cc, eight_bit_updates.cc, adafactor.cc), its op in graph/ops and its kernels in
// kernels/optimizer. base/optimizer_names.h lists the values of --optim, because folders on which this one depends
// need them as well; OptimizerName::runs is the name of a row. Thread-safe: constant data and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optim/optimizer.h"

namespace plimsoll {

// One key of --optim_args. set() throws kUsage if the text is not a value of the key.
struct OptimizerOption {
  std::string_view key;
  void (*set)(OptimizerConfig&, const std::string& key, const std::string& text);
};

// A rule of thumb for the memory of one parameter's states, as it is commonly quoted.
struct StateRule {
  std::string_view variant;  // "SGD with momentum"
  std::string_view states;   // "4 momentum"; empty if the rule counts no states
  int bytes = 0;             // bytes per parameter
  int num_kinds = 0;         // number of names in states() to which the rule applies
};

struct Optimizer {
  OptimizerKind kind;
  // The name of its op, of its states and in OptimizerName::runs.
  std::string_view name;
  // The name in reports: "8-bit AdamW".
  std::string_view label;
  // The optimizer with the same update and states in fp32; the optimizer itself if it is that one.
  OptimizerKind family;
  // True if the optimizer has a momentum as an option, and has no state without it.
  bool has_optional_momentum = false;
  // True if the optimizer requires the momentum, because it differs from another optimizer only in how that state is
  // stored.
  bool needs_momentum = false;
  // It updates split weights (base/split_f32.h).
  bool takes_split_weights = false;

  // Appends the update of one group of parameters with one weight decay.
  void (*add)(Graph&, std::span<const Parameter>, const OptimizerConfig&, double weight_decay, ValueId clip,
              ValueId finite);
  // Returns the names of the kinds of states that parameters may have.
  std::vector<std::string> (*states)(const OptimizerConfig&);
  // Returns a lower bound for the bytes of states per parameter: without absmax values and without states
  // that exist per row or column.
  int64_t (*least_state_bytes)(const OptimizerConfig&);
  // Returns the noise sites of a parameter.
  TakenSites (*sites)(const Graph&, const Parameter&);
  // Returns the keys of --optim_args.
  std::span<const OptimizerOption> (*options)();
  // A hint on the arguments for its other settings.
  std::string_view other_arguments;
  std::span<const StateRule> rules;
};

std::span<const Optimizer> optimizers();
// Returns the row of a kind. Errors: kInternal for a kind without a row.
const Optimizer& optimizer_of_kind(OptimizerKind kind);
// Returns the row of that name, or null.
const Optimizer* find_optimizer(std::string_view name);

// Returns the optimizer of a run for reports: "SGD with momentum 0.9".
std::string describe_optimizer(const OptimizerConfig& config);

// The keys of --optim_args by optimizer (optimizer_options.cc).
std::span<const OptimizerOption> adamw_options();
std::span<const OptimizerOption> sgd_options();
std::span<const OptimizerOption> adagrad_options();
std::span<const OptimizerOption> adafactor_options();

}  // namespace plimsoll
