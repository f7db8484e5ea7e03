// The methods that reduce the memory or the time of a run, as data: their names, the arguments that enable
// them, the devices they apply to, and their numerical effect. `plimsoll bench`, `plimsoll fit`,
// docs/COMBINATIONS.md and the tests of combinations use this one table. Thread-safe: constants.
#pragma once

#include <string_view>
#include <vector>

namespace plimsoll {

// The effect of a method on the numbers of a training run.
enum class MethodEffect {
  kSameBits,  // every result is bit-identical to that of a run without the method
  kSameSums,  // sums are computed in a different order, which changes their rounding
  kRounding,  // values are rounded to a different precision
  // another optimizer or fewer trained parameters, so the training takes another path and the learned model differs
  kOtherPath,
};

struct Method {
  std::string_view name;                // name of the method, such as "bf16"
  std::vector<std::string_view> words;  // the arguments of `plimsoll train` that enable it
  // Methods of the same kind ("precision" or "optimizer") exclude each other, so a search tries at most one
  // of them.
  std::string_view kind;
  MethodEffect effect = MethodEffect::kSameBits;
  // false if no fp32 copy of the weights is stored, so that updates read and write 16-bit weights
  bool keeps_master_weights = true;
  std::string_view not_on_cpu = {};  // the reason if the method cannot be used on a CPU, otherwise empty
  std::string_view not_in_fit = {};  // the reason if `plimsoll fit` does not try it, otherwise empty
  std::string_view help = {};        // description in one sentence
};

// Returns every method of this version, in the order in which tables show them.
const std::vector<Method>& method_table();
// Returns false if two of the methods set the same argument, because they cannot be combined: an argument has only one
// value.
bool set_different_arguments(const std::vector<const Method*>& methods);
// Returns the method with this name, or nullptr.
const Method* find_method(std::string_view name);

}  // namespace plimsoll
