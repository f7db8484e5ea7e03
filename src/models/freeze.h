// Chooses the parameters that a run does not train, and those that it trains faster or slower, by their names in Hugging Face's
// checkpoints. A weight may contain several parameters of a checkpoint (query, key and value of a layer are one weight); these can only be
// frozen together. Thread-safe: pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace plimsoll {

// Returns whether a name matches a pattern by the rules of Python's fnmatch: `*` matches any characters, including
// dots, `?` matches one, `[0-5]` and `[!0-5]` match one of a set. Cost: length of the name times length of the
// pattern.
bool glob_matches(std::string_view pattern, std::string_view name);

// Marks the weights that the patterns name as not trainable. Errors: kUsage for a pattern that matches nothing (the
// message lists the nearest names), for one that matches only a part of a weight, and if nothing is left to train.
void freeze_weights(std::vector<WeightSpec>& specs, const std::vector<std::string>& patterns);

// Sets the factors on the learning rate of the weights that the patterns name; the longest pattern that matches
// decides. Errors: kUsage for a pattern that matches no trained parameter, and if query, key and value of a layer get different factors.
void set_rate_factors(std::vector<WeightSpec>& specs, const std::map<std::string, double>& factors);

// Returns up to three of the names that differ least from `word`, by insertions, deletions and substitutions.
std::vector<std::string> nearest_names(std::string_view word, const std::vector<std::string>& names);

}  // namespace plimsoll
