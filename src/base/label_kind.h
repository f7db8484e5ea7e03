// The kinds of labels that the rows of a data set may have. Values only.
#pragma once

#include <cstdint>

#include "plimsoll/data.h"  // kNoLabel

namespace plimsoll {

enum class LabelKind : uint8_t {
  kClass,         // one class: its id, i32[B] in a batch
  kClasses,       // any number of classes: 0 or 1 for each, f32[B, num_labels]
  kNumbers,       // real numbers, f32[B, num_labels]
  kClassPerToken  // one class for each word: its id at the word's first token, i32[T], and kNoLabel at all others
};

}  // namespace plimsoll
