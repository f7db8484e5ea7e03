// The values of --optim: every name that Hugging Face's Trainer knows (OptimizerNames of its
// training_args.py), what it means here, or why it is refused. Pure data; thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace plimsoll {

struct OptimizerName {
  std::string_view name;
  // The optimizer that runs under this name: adamw, sgd, adafactor, adagrad, lion, or adamw_8bit, lion_8bit,
  // sgd_8bit, adagrad_8bit. Empty where the name is refused.
  std::string_view runs = {};
  // Whether its states lie in the host's memory: on a GPU they are copied for each update.
  bool is_paged = false;
  // Where it is refused: why, and the nearest name that runs.
  std::string_view reason = {};
  std::string_view nearest = {};

  constexpr bool is_here() const { return !runs.empty(); }
};

std::span<const OptimizerName> optimizer_names();
// The row of that name; null if there is none.
const OptimizerName* find_optimizer_name(std::string_view name);

}  // namespace plimsoll
