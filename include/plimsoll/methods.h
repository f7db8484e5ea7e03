// The methods by which a run uses less memory or less time, as data: their names, the arguments that switch
// each on, where each applies and what it does to the numbers. `plimsoll bench`, `plimsoll fit`,
// docs/COMBINATIONS.md and the tests of combinations read this one table. Constants; thread-safe.
#pragma once

#include <string_view>
#include <vector>

namespace plimsoll {

// What a method does to the numbers of training.
enum class MethodEffect {
  kSameBits,   // the same bits as without it
  kSameSums,   // the same sums in another order
  kRounding,   // numbers of another precision
  kOtherPath,  // another optimizer or fewer parameters: what is learned differs
};

struct Method {
  std::string_view name;                // "bf16"
  std::vector<std::string_view> words;  // the arguments of `plimsoll train` that switch it on
  // Methods of one kind, "precision" or "optimizer", are alternatives: a search tries one of them at a time.
  std::string_view kind;
  MethodEffect effect = MethodEffect::kSameBits;
  std::string_view not_on_cpu = {};  // why it has no meaning on a CPU; "" where it has
  std::string_view not_in_fit = {};  // why `plimsoll fit` does not look at it; "" where it does
  std::string_view help = {};        // a sentence
};

// Every method that this version has, in the order in which tables show them.
const std::vector<Method>& method_table();
// False where two of the methods set the same argument, which can hold the value of one of them only.
bool set_different_arguments(const std::vector<const Method*>& methods);
// The method of that name, or nullptr.
const Method* find_method(std::string_view name);

}  // namespace plimsoll
