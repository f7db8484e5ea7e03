// Whether lists of numbers are sets of classes or vectors of targets, 0 or 1 a class. For labels.cc and
// label_encoding.cc. Thread-safe: pure functions.
//
// A file does not say what its lists mean: [0, 1] is the set of the classes 0 and 1, or a target for each of
// two classes of which the second holds. Lists are vectors where
//   1. any item is a float, true or false; or
//   2. any list of nothing but 0 and 1 repeats one of them, which no set does; or
//   3. every item of every list is 0 or 1, and the lists all have one length of two or more, or one of them
//      is [1, 0]: as sets, each row would have every class, or one would not be in order.
// Else they are sets: lists of other numbers, and lists of 0 and 1 such as [0], [1], [0, 1], or [0] and [1],
// which as vectors would differ in length, or have one target and say what a single class says. A class in
// quotes is never a target, so ["0", "1"] is a set in any case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/data/text_split.h"

namespace plimsoll {

// What one pass over the lists finds.
struct LabelLists {
  std::vector<std::string> names;  // every item as text, in no order, maybe more than once
  bool all_integers = true;
  bool any_float = false;       // or true or false
  bool all_binary = true;       // every item is the number 0 or 1
  bool any_repeat = false;      // some list of nothing but 0 and 1 has one of them twice
  bool any_descending = false;  // some list is [1, 0]
  bool equal_widths = true;
  size_t width = 0;  // of the first list

  bool are_vectors() const;
};

// Rows without a label are left out. Errors: kBadData with file:line for a cell that is no list of labels.
LabelLists survey_lists(const TextSplit& split, char delimiter);

// Throws kBadData with the file:line of the first row whose list is not as long as the first row's or holds
// another number than 0 and 1. Requires: are_vectors() of the split's lists.
void require_vectors(const TextSplit& split, char delimiter);

}  // namespace plimsoll
