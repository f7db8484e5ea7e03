// Reads and writes single weights of a run by the names that they have in a checkpoint, on any device and in any storage
// format. Free functions; not thread-safe with respect to one executor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/executor.h"

namespace plimsoll {

// A weight under its name in a checkpoint. In memory it is a whole tensor, or one part of a fused weight.
struct NamedWeight {
  std::string name;
  std::vector<int64_t> shape;
  std::string stored_as;  // name of the storage type: "fp32", "bf16", "int8", "nf4", ...
  const WeightSpec* spec = nullptr;
  size_t part = 0;  // index of the part in spec->parts

  int64_t elements() const;
};

// Returns the weights in the order of the model. Weights of an adapter have the names that its file uses. Valid while the plan exists.
std::vector<NamedWeight> named_weights(const Plan& plan);

// Returns the weight of this name. Errors: kUsage for an unknown name; the message lists the most similar names.
NamedWeight find_weight(const Plan& plan, std::string_view name);

// Returns the values as fp32 numbers, row by row.
std::vector<float> read_weight(Executor& executor, const NamedWeight& weight);

// Writes the values, rounded to the type in which the weight is stored. Errors: kUsage if the number of values is wrong, or if a value is
// not finite in that type; nothing is written then.
void write_weight(Executor& executor, const NamedWeight& weight, std::span<const float> values);

}  // namespace plimsoll
