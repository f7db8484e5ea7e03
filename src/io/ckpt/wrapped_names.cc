#include "base/printable.h"
#include "io/ckpt/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

namespace plimsoll {
namespace {

// Components that torch.compile, DataParallel, FSDP, activation checkpointing and DeepSpeed insert into names. The names of models
// themselves never contain such a component.
constexpr std::string_view kInner[] = {"_orig_mod", "module", "_fsdp_wrapped_module",
                                       "_checkpoint_wrapped_module", "_forward_module"};

// Attribute names under which the classes of users and of libraries store the model that they wrap.
constexpr std::string_view kOuter[] = {
    "auto_model", "backbone",         "base_model", "encoder", "language_model", "model",      "net",
    "network",    "pretrained_model", "state_dict", "student", "text_encoder",   "text_model", "transformer"};

// The maximum number of nested wrappers that are removed. Real models have fewer; the limit is needed because a file may contain names of
// any length.
constexpr int kMostOuter = 4;

bool is_inner(std::string_view component) {
  return std::ranges::find(kInner, component) != std::end(kInner);
}

bool is_outer(std::string_view component, std::string_view own_prefix) {
  const bool is_number = !component.empty() && component.size() <= 2 &&
                         std::ranges::all_of(component, [](char c) { return c >= '0' && c <= '9'; });
  return is_number || component == own_prefix || std::ranges::find(kOuter, component) != std::end(kOuter);
}

std::string without_inner(std::string_view name) {
  std::string result;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view component = name.substr(begin, end - begin);
    if (!is_inner(component)) {
      if (!result.empty()) result += '.';
      result += component;
    }
    begin = end + 1;
  }
  return result;
}

// Adds to `prefixes` every prefix of the name that consists of one to kMostOuter components that is_outer() accepts.
void add_prefixes(std::string_view name, std::string_view own_prefix, std::set<std::string>& prefixes) {
  size_t begin = 0;
  for (int i = 0; i < kMostOuter; ++i) {
    const size_t end = name.find('.', begin);
    if (end == std::string_view::npos || !is_outer(name.substr(begin, end - begin), own_prefix)) return;
    begin = end + 1;
    prefixes.emplace(name.substr(0, begin));
  }
}

size_t count_provided(const std::unordered_set<std::string>& names,
                      std::span<const std::vector<std::string>> wanted) {
  return static_cast<size_t>(std::ranges::count_if(wanted, [&](const std::vector<std::string>& spellings) {
    return std::ranges::any_of(spellings, [&](const std::string& name) { return names.contains(name); });
  }));
}

size_t count_provided(std::span<const std::string_view> stored, const Unwrapping& unwrapping,
                      std::span<const std::vector<std::string>> wanted) {
  std::unordered_set<std::string> names;
  for (const std::string_view name : stored) names.insert(unwrapping.apply(name));
  return count_provided(names, wanted);
}

}  // namespace

std::string Unwrapping::apply(std::string_view name) const {
  std::string result = removes_inner ? without_inner(name) : std::string(name);
  if (result.size() > prefix.size() && result.starts_with(prefix)) result.erase(0, prefix.size());
  return result;
}

Unwrapping find_unwrapping(std::span<const std::string_view> stored,
                           std::span<const std::vector<std::string>> wanted, std::string_view own_prefix) {
  Unwrapping best;
  size_t most = count_provided(stored, best, wanted);
  if (most == wanted.size()) return best;
  const bool has_inner = std::ranges::any_of(
      stored, [](std::string_view name) { return without_inner(name).size() != name.size(); });
  std::set<std::string> prefixes{""};
  for (const std::string_view name : stored) {
    add_prefixes(has_inner ? without_inner(name) : std::string(name), own_prefix, prefixes);
  }
  // The set is sorted, so a shorter prefix comes before longer ones that begin with it. If several prefixes lead to the same number of
  // found tensors, the first one in this order is chosen.
  for (const std::string& prefix : prefixes) {
    const Unwrapping candidate{.removes_inner = has_inner, .prefix = prefix};
    const size_t provided = count_provided(stored, candidate, wanted);
    if (provided <= most) continue;
    most = provided;
    best = candidate;
  }
  return best;
}

std::string describe_unwrapping(const Unwrapping& unwrapping, std::span<const std::string_view> stored) {
  for (const std::string_view name : stored) {
    const std::string bare = unwrapping.apply(name);
    if (bare.size() == name.size()) continue;
    return fmt::format("the names of the tensors contain a wrapper, which is removed: {} is read as {}",
                       quoted_name(name), quoted_name(bare));
  }
  return {};
}

}  // namespace plimsoll
