// The weights of common modules, for an architecture's list. `disk_prefixes` are the prefixes that a module's
// name may have in a checkpoint, tried in order. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/weight_spec.h"

namespace plimsoll {

// Returns the spellings of a tensor's name on disk. Checkpoints converted from TensorFlow spell a norm's
// weight and bias gamma and beta.
std::vector<std::string> spellings_on_disk(const std::vector<std::string>& disk_prefixes,
                                           const std::string& name);

enum class LinearBias : uint8_t { kNo, kYes };

// A module of a checkpoint whose weight becomes some rows of a packed linear layer.
struct PackedModule {
  std::string name;
  int64_t rows = 0;
};

// Adds a linear layer whose matrix, and bias if it has one, consist of the rows of several modules of a checkpoint, one module after the
// other.
void add_packed_specs(std::vector<WeightSpec>& specs, const std::string& name,
                      const std::vector<PackedModule>& modules, int64_t in, LinearBias bias,
                      const std::vector<std::string>& disk_prefixes);
// Adds a gain, the only weight of a root-mean-square norm.
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
