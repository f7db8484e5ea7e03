// Which parameters of a model a run leaves as they are. A parameter is frozen by its name in Hugging Face's
// checkpoints; here a weight may hold several of them (query, key and value of a layer lie in one), and those
// are frozen together or not at all. Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace plimsoll {

// Whether a name matches a pattern as Python's fnmatch has it: `*` any characters, dots among them, `?` one,
// `[0-5]` and `[!0-5]` one of a set. Cost: length of the name times length of the pattern.
bool glob_matches(std::string_view pattern, std::string_view name);

// Marks what the patterns name as not trainable. Errors: kUsage for a pattern that matches nothing (with the
// names that come nearest), for one that matches a part of a weight only, and where nothing is left to train.
void freeze_weights(std::vector<WeightSpec>& specs, const std::vector<std::string>& patterns);

// Up to three of the names that differ least from the word, by insertions, deletions and substitutions.
std::vector<std::string> nearest_names(std::string_view word, const std::vector<std::string>& names);

}  // namespace plimsoll
