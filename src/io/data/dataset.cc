#include "io/data/dataset.h"

#include <algorithm>

#include "base/label_kind.h"

namespace plimsoll {

int64_t Dataset::held_bytes() const {
  int64_t text_bytes = static_cast<int64_t>(texts.capacity() * sizeof(std::vector<std::string>));
  for (const std::vector<std::string>& row : texts) {
    for (const std::string& text : row)
      text_bytes += static_cast<int64_t>(sizeof(std::string) + text.capacity());
  }
  return text_bytes + tokens.held_bytes() +
         static_cast<int64_t>((labels.classes.capacity() + word_starts.capacity()) * sizeof(int32_t) +
                              labels.values.capacity() * sizeof(float));
}

int64_t Dataset::num_labels(std::span<const int32_t> rows) const {
  if (!labels.is_per_token) return std::ssize(rows);
  int64_t count = 0;
  for (const int32_t row : rows) {
    count +=
        std::ranges::count_if(of_row(labels.classes, row), [](int32_t label) { return label != kNoLabel; });
  }
  return count;
}

}  // namespace plimsoll
