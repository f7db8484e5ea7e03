// Sets of methods of the table (plimsoll/methods.h), what they make of a request, and the words by which a
// user asks for them. What the arguments say of a run is decided where they are read (run/run_request.h):
// here is what the same words make of a request that was read, so that a search need not read arguments for
// each of some thousand sets. Tests hold the two together. Pure; thread-safe.
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

// At most one method of each kind.
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
  // As people read it and as arguments say it, in the order of the table: 8-bit AdamW and states in the
  // host's memory are paged_adamw_8bit.
  std::vector<const Method*> methods() const;
  // "pure_bf16, adamw_8bit"; `none` where there is none.
  std::string text(std::string_view none = "as it is") const;
  // How many methods there are to it: those that others imply count too.
  int size() const;
  // Whether the other one has all that this one has and more: bf16_gradients has what bf16 has.
  bool is_less_than(const MethodSet& other) const;
  friend bool operator==(const MethodSet&, const MethodSet&) = default;
  // Some order, for containers.
  friend bool operator<(const MethodSet& a, const MethodSet& b) { return a.bits_ < b.bits_; }

 private:
  uint64_t implied_bits() const;

  uint64_t bits_ = 0;  // of each method of the table, in its order
};

// The request with these methods; nothing where reading their words would refuse them beside it or beside
// each other, or where one of them changes nothing there. Trained parts and recompute_budget are not made
// here: see method_space.h. Requires: request.train.
std::optional<PlanRequest> with_methods(const PlanRequest& request, const MethodSet& set);

// What training with them does to the numbers, compared with the request: 8-bit AdamW beside Lion learns
// something else, and without clipping an update in the backward pass has the same bits.
Effect effect_of(const MethodSet& set, const PlanRequest& request);

// What to add to the arguments of the request. `budget_bytes`: of recompute_budget.
std::vector<std::string> words_of(const MethodSet& set, const PlanRequest& request, int64_t budget_bytes);

}  // namespace plimsoll
