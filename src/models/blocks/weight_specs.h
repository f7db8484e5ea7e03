// The weights of common modules, for an architecture's list. `disk_prefixes` are the prefixes that a module's
// name may have in a checkpoint, tried in order. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/weight_spec.h"

namespace plimsoll {

// Returns the names that a tensor may have in a checkpoint. In checkpoints that were converted from TensorFlow, the weight and the bias of
// a norm are called gamma and beta.
std::vector<std::string> spellings_on_disk(const std::vector<std::string>& disk_prefixes,
                                           const std::string& name);

enum class LinearBias : uint8_t { kNo, kYes };

// A module of a checkpoint, such as q_proj, whose weight becomes `rows` rows of a packed linear layer that contains several modules.
struct PackedModule {
  std::string name;
  int64_t rows = 0;
};

// Adds a linear layer whose matrix, and bias if it has one, consist of the rows of several modules of a checkpoint, one module after the
// other.
void add_packed_specs(std::vector<WeightSpec>& specs, const std::string& name,
                      const std::vector<PackedModule>& modules, int64_t in, LinearBias bias,
                      const std::vector<std::string>& disk_prefixes);
// Adds the gain of a root-mean-square norm to the list of weights. Such a norm has no other weight.
void add_gain_spec(std::vector<WeightSpec>& specs, const std::string& name, int64_t width,
                   const std::vector<std::string>& disk_prefixes);
void add_linear_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t out, int64_t in,
                      const std::vector<std::string>& disk_prefixes);
void add_norm_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t width,
                    const std::vector<std::string>& disk_prefixes);
void add_table_spec(std::vector<WeightSpec>& specs, const std::string& name, int64_t rows, int64_t width,
                    const std::vector<std::string>& disk_prefixes, int64_t zero_row = -1);
// Adds the weight of a linear layer without bias.
void add_matrix_spec(std::vector<WeightSpec>& specs, const std::string& name, int64_t out, int64_t in,
                     const std::vector<std::string>& disk_prefixes);

}  // namespace plimsoll
