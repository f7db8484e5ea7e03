// The values of --optim: every name that Hugging Face's Trainer accepts (OptimizerNames in its training_args.py),
// with the optimizer that it selects or the reason for its refusal. Folders on which src/optim depends need the
// names, so they are here and not in the rows of optim/optimizers.h; a test compares both. Pure data; thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace plimsoll {

struct OptimizerName {
  std::string_view name;
  // The optimizer that this name selects, by the name of its row in optim/optimizers.h; empty if the name is
  // refused.
  std::string_view runs = {};
  // The optimizer's states are stored in host memory; on a GPU they are copied to the device for each update.
  bool is_paged = false;
  // The reason for a refusal, and the most similar name that is accepted.
  std::string_view reason = {};
  std::string_view nearest = {};

  constexpr bool is_here() const { return !runs.empty(); }
};

std::span<const OptimizerName> optimizer_names();
// Returns the row of that name, or null.
const OptimizerName* find_optimizer_name(std::string_view name);

}  // namespace plimsoll
