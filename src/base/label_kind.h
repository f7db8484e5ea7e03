// The kinds of labels that the rows of a data set may have. Values only.
#pragma once

#include <cstdint>

namespace plimsoll {

enum class LabelKind : uint8_t {
  kClass,         // one class: its id, i32[B] in a batch
  kClasses,       // any number of classes: 0 or 1 for each, f32[B, num_labels]
  kNumbers,       // real numbers, f32[B, num_labels]
  kClassPerToken  // one class for each word: its id at the word's first token, i32[T], and kNoLabel at all others
};

// The label of a row or token without a class. Losses and metrics ignore it, as torch's ignore_index.
inline constexpr int32_t kNoLabel = -100;

}  // namespace plimsoll
