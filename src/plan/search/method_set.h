// Sets of methods of the table (plimsoll/methods.h), their effect on a request, and the arguments that ask
// for them. run/ turns arguments into a request; this file applies the same arguments to an existing
// request, so that a search need not read arguments for each of some thousand sets. Tests hold both to the
// same result. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/change.h"
#include "plimsoll/methods.h"

namespace plimsoll {

// A set with at most one method of each kind.
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
  // Returns the methods as arguments name them, in the order of the table: 8-bit AdamW with states in host
  // memory is paged_adamw_8bit.
  std::vector<const Method*> methods() const;
  // Returns a text such as "pure_bf16, adamw_8bit"; `none` if the set is empty.
  std::string text(std::string_view none = "as it is") const;
  // Returns the number of methods, including those that others imply.
  int size() const;
  // Returns true if the other set has all methods of this one and more: bf16_gradients includes bf16.
  bool is_less_than(const MethodSet& other) const;
  friend bool operator==(const MethodSet&, const MethodSet&) = default;
  // Defines an arbitrary order, so that sets can be keys of containers.
  friend bool operator<(const MethodSet& a, const MethodSet& b) { return a.bits_ < b.bits_; }

 private:
  uint64_t implied_bits() const;

  uint64_t bits_ = 0;  // one bit per method of the table, in its order
};

// Returns the request with these methods. Returns nothing if their arguments would be refused together with
// the request's or with each other, or if one of them changes nothing. It does not apply trained parts and
// recompute_budget: see method_space.h. Requires: request.train.
std::optional<PlanRequest> with_methods(const PlanRequest& request, const MethodSet& set);

// Returns the effect of the methods on training, compared with the request: a run with 8-bit AdamW instead
// of Lion learns something else, and updates in the backward pass give the same bits if the request does
// not clip gradients.
Effect effect_of(const MethodSet& set, const PlanRequest& request);

// Returns what to add to the arguments of the request. `budget_bytes` is the value for recompute_budget.
std::vector<std::string> words_of(const MethodSet& set, const PlanRequest& request, int64_t budget_bytes);

}  // namespace plimsoll
