#include "models/freeze.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "base/edit_distance.h"

namespace plimsoll {
namespace {

// Returns the edit distance between a pattern and a name; error messages suggest the names with the smallest distance. A star at the
// beginning or at the end of the pattern matches any characters there.
size_t typing_errors(std::string_view pattern, std::string_view name) {
  const FreeEnds free_ends{.begin = pattern.starts_with('*'), .end = pattern.ends_with('*')};
  while (pattern.starts_with('*')) pattern.remove_prefix(1);
  while (pattern.ends_with('*')) pattern.remove_suffix(1);
  return edit_distance(pattern, name, free_ends);
}

std::vector<std::string> part_names(const WeightSpec& spec) {
  std::vector<std::string> names;
  for (const WeightPart& part : spec.parts) names.push_back(part.disk_names.front());
  return names;
}

[[noreturn]] void refuse_a_part(const WeightSpec& spec, const std::string& pattern) {
  std::vector<std::string> frozen;
  std::vector<std::string> others;
  for (const std::string& name : part_names(spec)) {
    (glob_matches(pattern, name) ? frozen : others).push_back(name);
  }
  throw_error(
      ErrorCode::kUsage,
      "--freeze {}: the pattern names {}, but not {}; query, key and value of a layer are one matrix in "
      "memory and can only be frozen together: add a pattern for the rest, or leave the named ones out",
      pattern, fmt::join(frozen, ", "), fmt::join(others, ", "));
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view name) {
  return fnmatch(std::string(pattern).c_str(), std::string(name).c_str(), FNM_NOESCAPE) == 0;
}

std::vector<std::string> nearest_names(std::string_view word, const std::vector<std::string>& names) {
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < names.size(); ++i) order.emplace_back(typing_errors(word, names[i]), i);
  std::sort(order.begin(), order.end());
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min<size_t>(3, order.size()); ++i) nearest.push_back(names[order[i].second]);
  return nearest;
}

namespace {

std::vector<std::string> all_names(const std::vector<WeightSpec>& specs) {
  std::vector<std::string> names;
  for (const WeightSpec& spec : specs) {
    for (std::string& name : part_names(spec)) names.push_back(std::move(name));
  }
  return names;
}

// Checks that a pattern matches a parameter. `argument`: the argument for the message, such as "--freeze bert.*".
void require_match(const std::string& argument, const std::string& pattern,
                   const std::vector<std::string>& names) {
  const auto matches = [&](const std::string& name) { return glob_matches(pattern, name); };
  if (std::any_of(names.begin(), names.end(), matches)) return;
  throw_error(ErrorCode::kUsage, "{}: no parameter of this model has such a name; the nearest names are {}",
              argument, fmt::join(nearest_names(pattern, names), ", "));
}

}  // namespace

void set_rate_factors(std::vector<WeightSpec>& specs, const std::map<std::string, double>& factors) {
  if (factors.empty()) return;
  const std::vector<std::string> names = all_names(specs);
  const auto argument = [&](const std::string& pattern) {
    return fmt::format("--learning_rate_factors {}={}", pattern, factors.at(pattern));
  };
  for (const auto& entry : factors) {
    // This is a reference instead of a structured binding, because clang 14 cannot capture a structured binding in a lambda.
    const std::string& pattern = entry.first;
    require_match(argument(pattern), pattern, names);
    const bool is_trained = std::any_of(specs.begin(), specs.end(), [&](const WeightSpec& spec) {
      const std::vector<std::string> parts = part_names(spec);
      return spec.trainable && std::any_of(parts.begin(), parts.end(), [&](const std::string& name) {
               return glob_matches(pattern, name);
             });
    });
    if (!is_trained) {
      throw_error(ErrorCode::kUsage,
                  "{}: this run trains none of the parameters that the pattern names; leave the pattern out",
                  argument(pattern));
    }
  }
  const auto factor_of = [&](const std::string& name) {
    const std::pair<const std::string, double>* longest = nullptr;
    for (const auto& entry : factors) {
      if (!glob_matches(entry.first, name)) continue;
      if (longest == nullptr || entry.first.size() > longest->first.size()) longest = &entry;
    }
    return longest == nullptr ? 1.0 : longest->second;
  };
  for (WeightSpec& spec : specs) {
    const std::vector<std::string> parts = part_names(spec);
    spec.rate_factor = factor_of(parts.front());
    for (const std::string& name : parts) {
      if (factor_of(name) == spec.rate_factor || !spec.trainable) continue;
      throw_error(ErrorCode::kUsage,
                  "--learning_rate_factors: {} has the factor {}, but {} has {}; query, key and value of a "
                  "layer are one "
                  "matrix in memory and have one learning rate: use a pattern for all of them",
                  parts.front(), spec.rate_factor, name, factor_of(name));
    }
  }
}

void freeze_weights(std::vector<WeightSpec>& specs, const std::vector<std::string>& patterns) {
  const std::vector<std::string> names = all_names(specs);
  for (const std::string& pattern : patterns) require_match("--freeze " + pattern, pattern, names);
  const auto is_frozen = [&](const std::string& name) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return glob_matches(pattern, name); });
  };
  for (WeightSpec& spec : specs) {
    if (!spec.trainable) continue;
    const std::vector<std::string> parts = part_names(spec);
    const auto frozen = std::count_if(parts.begin(), parts.end(), is_frozen);
    if (frozen == 0) continue;
    if (frozen == std::ssize(parts)) {
      spec.trainable = false;
      continue;
    }
    for (const std::string& pattern : patterns) {
      if (std::any_of(parts.begin(), parts.end(),
                      [&](const std::string& name) { return glob_matches(pattern, name); })) {
        refuse_a_part(spec, pattern);
      }
    }
  }
  if (std::none_of(specs.begin(), specs.end(), [](const WeightSpec& spec) { return spec.trainable; })) {
    // The first component of the first parameter's name is the encoder: "electra" in "electra.embeddings.word_embeddings.weight".
    const std::string encoder = names.front().substr(0, names.front().find('.'));
    throw_error(ErrorCode::kUsage,
                "--freeze {}: every parameter is frozen and nothing is left to train; leave the classifier "
                "out, as in --freeze '{}.*'",
                fmt::join(patterns, ","), encoder);
  }
}

}  // namespace plimsoll
