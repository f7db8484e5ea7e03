// Decides if lists of numbers are sets of classes or vectors of targets with one 0 or 1 per class. It is used by labels.cc and
// label_encoding.cc only. Thread-safe: pure functions.
//
// A file does not define the meaning of its lists: [0, 1] is the set of the classes 0 and 1, or a target for
// each of two classes of which the second is true. Lists are vectors in these cases:
//   1. Any item is a float, true or false.
//   2. Any list of only 0 and 1 contains one of them twice, which a set does not.
//   3. Every item of every list is 0 or 1, and either all lists have the same length of two or more, or one list is [1, 0]. Read as sets,
//      such lists would mean that every row has all classes, or that a set is not sorted, and both are unlikely.
// Otherwise they are sets: lists with other numbers, and lists of 0 and 1 such as [0], [1], [0, 1], or only [0] and [1]. Read as vectors,
// such lists would have different lengths, or would all have only one target, which a file would state as a single class instead of a list.
// A class in quotes is never a target, so ["0", "1"] is always a set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/data/text_split.h"

namespace plimsoll {

// Properties of all labels of a split that are lists, collected in one pass.
struct LabelLists {
  std::vector<std::string> names;  // every item as text, unordered, possibly with duplicates
  bool all_integers = true;
  bool any_float = false;       // true if any item is a float, true or false
  bool all_binary = true;       // true if every item is the number 0 or 1
  bool any_repeat = false;      // true if a list of only 0 and 1 contains one of them twice
  bool any_descending = false;  // true if one of the lists is [1, 0]
  bool equal_widths = true;
  size_t width = 0;  // number of items of the first list

  bool are_vectors() const;
};

// Examines all lists; rows without a label are skipped. Errors: kBadData with file:line for a cell that is
// not a list of labels.
LabelLists survey_lists(const TextSplit& split, std::string_view delimiter);

// Throws kBadData with the file:line of the first row whose list has another length than that of the first row or contains a number other
// than 0 and 1. Requires: LabelLists::are_vectors() is true for the lists of the split.
void require_vectors(const TextSplit& split, std::string_view delimiter);

}  // namespace plimsoll
