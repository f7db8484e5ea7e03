// Names of tensors that were saved from inside a wrapper: torch.compile ("_orig_mod."), DataParallel ("module."), FSDP,
// Lightning ("model."), sentence-transformers ("0.auto_model."), or a class of the user's that holds the model. Pure
// functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// A way to remove wrappers from names. A default object removes nothing.
struct Unwrapping {
  // Components that a wrapper may insert anywhere in a name are removed, such as "_orig_mod".
  bool removes_inner = false;
  // The beginning that is removed afterwards from names that have it: "0.auto_model.", "model.".
  std::string prefix = {};

  bool removes_anything() const { return removes_inner || !prefix.empty(); }
  // Returns the name without the wrappers.
  std::string apply(std::string_view name) const;
  friend bool operator==(const Unwrapping&, const Unwrapping&) = default;
};

// Returns the way that makes the stored names provide the most of the wanted tensors, each of which has one name or
// several; if no way provides more than the names as they are, a default object. Only components that are known to be
// wrappers are removed, or `own_prefix`, the first component of the model's own names ("bert" in "bert.bert."): the
// weights of another architecture ("roberta.") must not be taken for this one's. Cost: linear in the names.
Unwrapping find_unwrapping(std::span<const std::string_view> stored,
                           std::span<const std::vector<std::string>> wanted, std::string_view own_prefix);

// Returns a description for the user: "the wrapper 'module.' was removed from the names".
std::string describe_unwrapping(const Unwrapping& unwrapping, std::span<const std::string_view> stored);

}  // namespace plimsoll
