// Sets of training methods from the table in plimsoll/methods.h, their effect on a run, and the arguments that request them. A set only
// changes the arguments of a run; plan/request translates these into a plan. Pure; thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/request/request_of.h"
#include "plan/search/change.h"
#include "plimsoll/methods.h"

namespace plimsoll {

// A set of training methods with at most one method of each kind.
class MethodSet {
 public:
  MethodSet() = default;
  explicit MethodSet(const std::vector<const Method*>& methods);

  bool has(const Method& method) const;
  bool has(std::string_view name) const;
  bool has_kind(std::string_view kind) const;
  bool empty() const { return bits_ == 0; }
  MethodSet with(const Method& method) const;
  MethodSet without_kind(std::string_view kind) const;
  MethodSet only_kind(std::string_view kind) const;
  // Returns the methods under the names that arguments use, in the order of the table of methods. Methods that have a common name are
  // combined: 8-bit AdamW with states in host memory is paged_adamw_8bit.
  std::vector<const Method*> methods() const;
  // Returns the names of the methods, such as "pure_bf16, adamw_8bit", or the text `none` if the set is empty.
  std::string text(std::string_view none = "as it is") const;
  // Returns the number of methods, including those that others imply.
  int size() const;
  // Returns true if the other set has all methods of this one and at least one more. Methods that others imply count too: bf16_gradients
  // includes bf16.
  bool is_less_than(const MethodSet& other) const;
  friend bool operator==(const MethodSet&, const MethodSet&) = default;
  // Defines an arbitrary order, so that sets can be keys of containers.
  friend bool operator<(const MethodSet& a, const MethodSet& b) { return a.bits_ < b.bits_; }

 private:
  uint64_t implied_bits() const;

  uint64_t bits_ = 0;  // one bit per method, in the order of the table of methods
};

// Adds the arguments of these methods to a run. A method replaces the run's optimizer and its gradient clipping, but no other setting
// that the user gave. Errors: kUsage if the arguments are refused, or if a method sets an argument to which the user gave another value.
// Requires: the run trains.
RunSpec with_methods(const RunSpec& run, const MethodSet& set);
// Returns the result of with_methods(), or nothing if the arguments are refused.
std::optional<RunSpec> try_methods(const RunSpec& run, const MethodSet& set);
// Returns the plan request of the run with the methods. Returns nothing if it is refused, or if the methods change nothing.
std::optional<PlanRequest> changed_request(const RunSpec& run, const MethodSet& set);

// Returns the effect of the methods on training, compared with the run whose request is `own`. For example, a run with 8-bit AdamW
// instead of Lion learns something else, while updates in the backward pass result in the same bits if the run does not clip gradients.
Effect effect_of(const MethodSet& set, const PlanRequest& own);

// Returns the command-line arguments that a user adds to those of the run to request the methods.
std::vector<std::string> words_of(const MethodSet& set, const RunSpec& run);

// States how much methods change a run. If several runs are equally fast, the one that changes least is preferred: first a run that
// computes the same numbers, then one that keeps fp32 master weights, then one that does not multiply in 8 bits, then the one with the
// fewest arguments.
struct ExtentOfChange {
  Effect effect = Effect::kNone;
  bool drops_master_weights = false;
  bool multiplies_in_8_bits = false;
  int64_t num_arguments = 0;  // number of arguments to be added to the run
  // Suppresses a false warning of clang-tidy, which takes the zero in the generated comparison for a null pointer.
  auto operator<=>(const ExtentOfChange&) const = default;  // NOLINT(modernize-use-nullptr)
};
ExtentOfChange extent_of(const MethodSet& set, const RunSpec& run, const PlanRequest& own);

}  // namespace plimsoll
