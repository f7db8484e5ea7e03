// The values of --optim: every name that Hugging Face's Trainer knows (OptimizerNames in its
// training_args.py), with the optimizer that it selects here or the reason why it is refused. Thread-safe:
// pure data.
#pragma once

#include <span>
#include <string_view>

namespace plimsoll {

struct OptimizerName {
  std::string_view name;
  // The optimizer that runs under this name: adamw, sgd, adafactor, adagrad, lion, adamw_8bit, lion_8bit,
  // sgd_8bit or adagrad_8bit. Empty if the name is refused.
  std::string_view runs = {};
  // True if its states are stored in host memory; on a GPU they are copied for each update.
  bool is_paged = false;
  // For a refused name: the reason, and the nearest name that is supported.
  std::string_view reason = {};
  std::string_view nearest = {};

  constexpr bool is_here() const { return !runs.empty(); }
};

std::span<const OptimizerName> optimizer_names();
// Returns the row with this name, or null if the name is unknown.
const OptimizerName* find_optimizer_name(std::string_view name);

}  // namespace plimsoll
