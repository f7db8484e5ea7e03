// The code of the optimizers' rows (base/optimizer_table.h) that builds graphs and reads arguments: one UpdateBuilder per
// frame, and one OptimizerSettings per kind of settings. Thread-safe: constant data and pure functions.
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
  // True if the key selects how floating-point states or weights are stored. An optimizer with states in 8 bits does not
  // have it.
  bool is_of_storage = false;
};

// The settings of an update. Optimizers that differ only in how their states are stored share them.
struct OptimizerSettings {
  std::span<const OptimizerOption> options = {};
  // Returns the attributes of the op with the constants of the update; the weight decay is not one of them.
  Attributes (*constants)(const OptimizerConfig&);
};
// Returns the settings that the row of an optimizer names (optimizer_options.cc).
const OptimizerSettings& optimizer_settings(OptimizerKind kind);

// How a frame builds the updates of a row. Each `add` appends the update of one group of parameters with one weight
// decay.
struct UpdateBuilder {
  void (*add)(Graph&, const OptimizerRow&, std::span<const Parameter>, const OptimizerConfig&,
              double weight_decay, ValueId clip, ValueId finite);
  // Returns the names of the kinds of states that parameters may have.
  std::vector<std::string> (*states)(const OptimizerRow&, const OptimizerConfig&);
  // Returns a lower bound for the bytes of states per parameter: without absmax values and without states
  // that exist per row or column.
  int64_t (*least_state_bytes)(const OptimizerRow&, const OptimizerConfig&);
  // Returns the noise sites of a parameter.
  TakenSites (*sites)(const Graph&, const Parameter&);
};
const UpdateBuilder& update_builder(UpdateFrame frame);

// The builder of each frame, for update_builder().
extern const UpdateBuilder kPlainUpdates;      // plain_updates.cc
extern const UpdateBuilder kEightBitUpdates;   // eight_bit_updates.cc
extern const UpdateBuilder kAdafactorUpdates;  // adafactor.cc

// Returns a lower bound for the bytes of states per parameter (UpdateBuilder).
int64_t least_state_bytes(const OptimizerConfig& config);

// Returns the optimizer of a run for reports: "SGD with momentum 0.9".
std::string describe_optimizer(const OptimizerConfig& config);

}  // namespace plimsoll
