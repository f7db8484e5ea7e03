// Appends the op that updates a group of parameters, with its operands in the order that
// graph/ops/update.h states, and names its outputs. All optimizers use this code; each supplies the op,
// its constants and the states of a parameter. Pure functions of their arguments and the graph; as
// thread-safe as the graph.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/ops/op.h"
#include "optim/optimizer.h"

namespace plimsoll {

// A kind of optimizer state, such as "adamw.m". For a weight W, the graph has the value "adamw.m/W", the state before an update, and the
// value "adamw.m.updated/W", the state after it.
struct UpdateState {
  std::string name;
  ValueType type;
};
using UpdateStatesOf = std::function<std::vector<UpdateState>(const Parameter&, const ValueType& weight)>;

// Returns the type of states whose type does not depend on how the weight is stored: fp32, or fp64 in an f64
// graph.
DType whole_state_dtype(const ValueType& weight);

// Returns the text of the attribute part_rows of an update: for each parameter, the numbers of rows of the tensors that it consists of.
std::string format_part_rows(const Graph& graph, std::span<const Parameter> group);

// States whether an update rounds its states stochastically, whatever the data type of the weights is.
enum class RoundedStates : uint8_t { kNo, kYes };
// If an update of this group rounds stochastically, sets its attributes noise_seed and noise_site. The update of a group does so if its
// weights are stored in bf16 without the remaining bits of their fp32 values, or if `states` is kYes. Stochastic rounding preserves, on
// average, changes smaller than the spacing of the numbers. Requires: all parameters of the group have the same NoiseSites.
void set_noise(const Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
               Attributes& attributes, RoundedStates states = RoundedStates::kNo);

// Returns the name of the graph input that contains the learning rate times this factor.
std::string learning_rate_input(double factor);

// Declares the states of every parameter and appends `op` to the graph. Sets the attribute `copies` (whether the update also writes 16-bit
// copies of the weights); the caller sets all others. Requires: the parameters have names, one storage format and one learning rate, and
// either all or none of them have a 16-bit copy.
void emit_update(Graph& graph, const OpSchema& op, std::span<const Parameter> group,
                 const UpdateStatesOf& states_of, Attributes attributes, ValueId clip, ValueId finite);

}  // namespace plimsoll
