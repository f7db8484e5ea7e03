// Appends the op that updates a group of parameters, with its operands in the order of graph/ops/update.h and
// the names of its outputs: the part that is common to all optimizers. The optimizer supplies the op, its
// constants and the states of a parameter. Pure functions of their arguments and the graph; as thread-safe as
// the graph.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/ops/op.h"
#include "optim/optimizer.h"

namespace plimsoll {

// A kind of state, such as "adamw.m". The state of a weight is the value "adamw.m/WEIGHT", and its next version is
// "adamw.m.updated/WEIGHT".
struct UpdateState {
  std::string name;
  ValueType type;
};
using UpdateStatesOf = std::function<std::vector<UpdateState>(const Parameter&, const ValueType& weight)>;

// Returns the type of states whose type does not depend on how the weight is stored: fp32, or fp64 in an f64
// graph.
DType whole_state_dtype(const ValueType& weight);

// Returns the text of the attribute part_rows for an update of these parameters.
std::string format_part_rows(const Graph& graph, std::span<const Parameter> group);

// States whether an update rounds its states stochastically, whatever the data type of the weights is.
enum class RoundedStates : uint8_t { kNo, kYes };
// Sets noise_seed and noise_site of an update of this group if it rounds stochastically: with weights that are stored in bf16 only, or with
// states that are rounded stochastically. Stochastic rounding preserves, on average, changes smaller than the spacing of the numbers.
// Requires: all parameters of the group have the same NoiseSites.
void set_noise(const Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
               Attributes& attributes, RoundedStates states = RoundedStates::kNo);

// Returns the name of the graph input that contains the learning rate times this factor.
std::string learning_rate_input(double factor);

// Declares the states of every parameter and appends `op` to the graph. Sets the attribute `copies`; the caller sets all other attributes.
// Requires: the parameters have names, one storage format and one learning rate, and either all or none of them have a 16-bit copy.
void emit_update(Graph& graph, const OpSchema& op, std::span<const Parameter> group,
                 const UpdateStatesOf& states_of, Attributes attributes, ValueId clip, ValueId finite);

}  // namespace plimsoll
