// The op that updates a group of parameters, with its operands in the order of graph/ops/update.h and the
// names of what it writes: what the updates of all optimizers have alike. Which states a parameter has is the
// optimizer's to say, as are the op and its constants. Pure functions of their arguments and the graph;
// thread-safe as the graph is.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/ops/op.h"
#include "optim/optimizer.h"

namespace plimsoll {

// "adamw.m": the value is named "adamw.m/WEIGHT", its next version "adamw.m.updated/WEIGHT".
struct UpdateState {
  std::string name;
  ValueType type;
};
using UpdateStatesOf = std::function<std::vector<UpdateState>(const Parameter&, const ValueType& weight)>;

// fp32, in an f64 graph fp64: of states that are kept whole, whatever their weight is kept in.
DType whole_state_dtype(const ValueType& weight);

// The attribute part_rows of an update of this group.
std::string format_part_rows(const Graph& graph, std::span<const Parameter> group);

// Whether an update rounds states stochastically whatever its weights are.
enum class RoundedStates : uint8_t { kNo, kYes };
// Sets noise_seed and noise_site of an update of this group where it rounds stochastically: with weights in
// bf16 that nothing makes whole, or such states, so that a change smaller than their spacing is kept on
// average. Requires: the sites of all are of the same kind.
void set_noise(const Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
               Attributes& attributes, RoundedStates states = RoundedStates::kNo);

// Declares the states of every parameter and appends `op` to the graph; sets {copies}, where the other
// attributes are the caller's. Requires: the parameters have names and are stored alike, all with a copy or
// none.
void emit_update(Graph& graph, const OpSchema& op, std::span<const Parameter> group,
                 const UpdateStatesOf& states_of, Attributes attributes, ValueId clip, ValueId finite);

}  // namespace plimsoll
