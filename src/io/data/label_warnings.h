// Finds labels of a training split that are probably not meant as they are read. Thread-safe: pure functions.
#pragma once

#include <string>
#include <vector>

#include "io/data/labels.h"
#include "io/data/text_split.h"

namespace plimsoll {

// Returns complete sentences with file and line, for classes from a column of text (CSV, TSV or JSON strings):
//  1. numbers and words in one column, which all become names;
//  2. some labels that are lists, among others that are not;
//  3. labels such as a#b and a|b, whose parts occur in other labels.
// Also tells that a regression was inferred, because the labels are numbers and at least one is a float.
// Requires: the scheme is that of this split. `is_kind_given`: the problem type was requested, not inferred.
std::vector<std::string> label_warnings(const TextSplit& train, const LabelScheme& scheme,
                                        bool is_kind_given);

}  // namespace plimsoll
