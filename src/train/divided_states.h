// The optimizer's states of a run whose ranks divide them (--zero_stage 1). A checkpoint has the whole states, so that it does not
// depend on the number of ranks or on how they divide the states. Free functions; not thread-safe with respect to one executor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/ckpt/safetensors.h"
#include "plan/compile/plan.h"

namespace plimsoll {

class Communicator;
class Executor;

// A state of which each rank has a slice: elements [r * slice, (r + 1) * slice) of the whole state, as far as they exist.
struct DividedState {
  std::vector<int64_t> shape;  // of the whole state
  int64_t slice = 0;           // elements of a slice, for which the plan has room on every rank

  int64_t num_elements() const {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    return elements;
  }
  int64_t first_of(int64_t rank) const { return std::min(num_elements(), rank * slice); }
  int64_t end_of(int64_t rank) const { return std::min(num_elements(), (rank + 1) * slice); }
};

// Returns the divided states of a plan by the names of their buffers; none if every rank has all states.
std::map<std::string, DividedState> divided_states(const Plan& plan);

// Returns the whole state for a checkpoint. Its bytes are gathered from all ranks while they are read, so that every rank has to
// read the same ranges of the same tensors in the same order. Valid while the executor and the communicator live.
TensorSource whole_state(Executor& executor, Communicator& ranks, const std::string& name,
                         const DividedState& state);

// Reads the slice of a rank from a checkpoint's tensor, which is the whole state.
void read_slice(Executor& executor, int64_t rank, const std::string& name, const DividedState& state,
                const SafetensorsFile& file, const StoredTensor& tensor);

}  // namespace plimsoll
