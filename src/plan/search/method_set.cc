#include "plan/search/method_set.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace plimsoll {
namespace {

size_t place_of(const Method& method) {
  const std::vector<Method>& table = method_table();
  const auto place = static_cast<size_t>(&method - table.data());
  PLIMSOLL_CHECK(place < table.size() && place < 64, "'{}' is not a method of the table", method.name);
  return place;
}

const Method& method_named(std::string_view name) {
  const Method* method = find_method(name);
  PLIMSOLL_CHECK(method != nullptr, "there is no method '{}'", name);
  return *method;
}

uint64_t bit_of(std::string_view name) {
  return uint64_t{1} << place_of(method_named(name));
}

// Methods that include another method.
struct Implied {
  uint64_t method = 0;
  uint64_t implied = 0;
};
const std::vector<Implied>& implied_methods() {
  static const std::vector<Implied> kImplied{{bit_of("bf16_gradients"), bit_of("bf16")},
                                             {bit_of("fp16_gradients"), bit_of("fp16")},
                                             {bit_of("qlora"), bit_of("lora")}};
  return kImplied;
}

}  // namespace

MethodSet::MethodSet(const std::vector<const Method*>& methods) {
  for (const Method* method : methods) *this = with(*method);
}

bool MethodSet::has(const Method& method) const {
  return (bits_ >> place_of(method) & 1) != 0;
}

bool MethodSet::has(std::string_view name) const {
  return has(method_named(name));
}

bool MethodSet::has_kind(std::string_view kind) const {
  return std::ranges::any_of(method_table(),
                             [&](const Method& method) { return method.kind == kind && has(method); });
}

MethodSet MethodSet::with(const Method& method) const {
  MethodSet set = *this;
  set.bits_ |= uint64_t{1} << place_of(method);
  // Each set has one form.
  if (set.has("paged_adamw_8bit")) {
    set.bits_ &= ~bit_of("paged_adamw_8bit");
    set.bits_ |= bit_of("adamw_8bit") | bit_of("offload_optimizer");
  }
  return set;
}

MethodSet MethodSet::without_kind(std::string_view kind) const {
  MethodSet set;
  set.bits_ = bits_ & ~only_kind(kind).bits_;
  return set;
}

MethodSet MethodSet::only_kind(std::string_view kind) const {
  MethodSet set;
  for (const Method& method : method_table()) {
    if (method.kind == kind) set.bits_ |= bits_ & (uint64_t{1} << place_of(method));
  }
  return set;
}

std::vector<const Method*> MethodSet::methods() const {
  uint64_t bits = bits_;
  const uint64_t paged = bit_of("adamw_8bit") | bit_of("offload_optimizer");
  if ((bits & paged) == paged) bits = (bits & ~paged) | bit_of("paged_adamw_8bit");
  std::vector<const Method*> methods;
  for (const Method& method : method_table()) {
    if ((bits >> place_of(method) & 1) != 0) methods.push_back(&method);
  }
  return methods;
}

std::string MethodSet::text(std::string_view none) const {
  std::string text;
  for (const Method* method : methods()) text += (text.empty() ? "" : ", ") + std::string(method->name);
  return text.empty() ? std::string(none) : text;
}

uint64_t MethodSet::implied_bits() const {
  uint64_t bits = bits_;
  for (const Implied& each : implied_methods()) {
    if ((bits_ & each.method) != 0) bits |= each.implied;
  }
  return bits;
}

int MethodSet::size() const {
  return std::popcount(implied_bits());
}

bool MethodSet::is_less_than(const MethodSet& other) const {
  const uint64_t mine = implied_bits();
  const uint64_t its = other.implied_bits();
  return mine != its && (mine & its) == mine;
}

}  // namespace plimsoll
