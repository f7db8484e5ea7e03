#include "models/freeze.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace plimsoll {
namespace {

// Returns whether the set that begins at pattern[0] == '[' contains the character, and the set's length. The length
// is 0 if no bracket closes the set; the bracket is then an ordinary character.
std::pair<bool, size_t> match_set(std::string_view pattern, char c) {
  size_t i = 1;
  const bool negated = i < pattern.size() && pattern[i] == '!';
  if (negated) ++i;
  const size_t close = pattern.find(']', i + 1);
  if (close == std::string_view::npos) return {false, 0};
  bool found = false;
  while (i < close) {
    if (i + 2 < close && pattern[i + 1] == '-') {
      found = found || (pattern[i] <= c && c <= pattern[i + 2]);
      i += 3;
    } else {
      found = found || pattern[i] == c;
      ++i;
    }
  }
  return {found != negated, close + 1};
}

// Counts the insertions, deletions and substitutions between the word and a name. A star at an end of the word
// matches any characters at that end of the name.
size_t edit_distance(std::string_view a, std::string_view b) {
  const bool begins_anywhere = a.starts_with('*');
  const bool ends_anywhere = a.ends_with('*');
  while (a.starts_with('*')) a.remove_prefix(1);
  while (a.ends_with('*')) a.remove_suffix(1);
  std::vector<size_t> row(b.size() + 1, 0);
  if (!begins_anywhere) std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return ends_anywhere ? *std::min_element(row.begin(), row.end()) : row[b.size()];
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
  size_t p = 0;
  size_t n = 0;
  // The position of the last star, and the end of the characters that this star matches. After each failed match the
  // star takes one character more.
  size_t star = std::string_view::npos;
  size_t taken = 0;
  while (n < name.size()) {
    size_t width = 0;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
      continue;
    }
    if (p < pattern.size()) {
      const auto [in_set, set_width] =
          pattern[p] == '[' ? match_set(pattern.substr(p), name[n]) : std::pair<bool, size_t>{false, 0};
      if (set_width > 0) {
        width = in_set ? set_width : 0;
      } else if (pattern[p] == '?' || pattern[p] == name[n]) {
        width = 1;
      }
    }
    if (width > 0) {
      p += width;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> nearest_names(std::string_view word, const std::vector<std::string>& names) {
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < names.size(); ++i) order.emplace_back(edit_distance(word, names[i]), i);
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
    const std::string& pattern = entry.first;  // a lambda cannot capture a structured binding in clang 14
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
    // The first parameter belongs to the encoder: "electra.embeddings.word_embeddings.weight".
    const std::string encoder = names.front().substr(0, names.front().find('.'));
    throw_error(ErrorCode::kUsage,
                "--freeze {}: every parameter is frozen and nothing is left to train; leave the classifier "
                "out, as in --freeze '{}.*'",
                fmt::join(patterns, ","), encoder);
  }
}

}  // namespace plimsoll
