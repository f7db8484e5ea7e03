// For the optimizers in base/optimizer_table.h: the code that builds update ops (one UpdateBuilder per UpdateFrame, which is a kind of
// update op), and the code that reads arguments (one OptimizerSettings per group of optimizers with the same settings). Thread-safe:
// constant data and pure functions.
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
  // True if the key selects how floating-point states or weights are stored. Optimizers with 8-bit states do not accept such a key.
  bool is_of_storage = false;
};

// The settings of an optimizer. Optimizers that differ only in how their states are stored share one object.
struct OptimizerSettings {
  std::span<const OptimizerOption> options = {};
  // Returns the attributes of the update op that contain its constants, except the weight decay.
  Attributes (*constants)(const OptimizerConfig&);
};
// Returns the settings of the optimizer: the object that its row in base/optimizer_table.inc names. Defined in optimizer_options.cc.
const OptimizerSettings& optimizer_settings(OptimizerKind kind);

// The functions that build the update ops of one UpdateFrame, a kind of update op. `add` appends the updates of a group of parameters with
// a common weight decay.
struct UpdateBuilder {
  void (*add)(Graph&, const OptimizerRow&, std::span<const Parameter>, const OptimizerConfig&,
              double weight_decay, ValueId clip, ValueId finite);
  // Returns the names of the kinds of states that parameters may have.
  std::vector<std::string> (*states)(const OptimizerRow&, const OptimizerConfig&);
  // Returns a lower bound for the bytes of optimizer states per parameter. It leaves out the absmax values of 8-bit states, and states with
  // one number per row or column of a matrix.
  int64_t (*least_state_bytes)(const OptimizerRow&, const OptimizerConfig&);
  // Returns the random sites (numbered random sequences) that the rounding noise of a parameter needs.
  TakenSites (*sites)(const Graph&, const Parameter&);
};
const UpdateBuilder& update_builder(UpdateFrame frame);

// The UpdateBuilder of each UpdateFrame. update_builder() returns one of them.
extern const UpdateBuilder kPlainUpdates;      // defined in plain_updates.cc
extern const UpdateBuilder kEightBitUpdates;   // defined in eight_bit_updates.cc
extern const UpdateBuilder kAdafactorUpdates;  // defined in adafactor.cc

// Returns UpdateBuilder::least_state_bytes of the configured optimizer: a lower bound for the bytes of states per parameter.
int64_t least_state_bytes(const OptimizerConfig& config);

// Returns a description of the optimizer for reports, such as "SGD with momentum 0.9".
std::string describe_optimizer(const OptimizerConfig& config);

}  // namespace plimsoll
