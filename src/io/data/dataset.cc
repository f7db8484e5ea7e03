#include "io/data/dataset.h"

namespace plimsoll {

int64_t Dataset::held_bytes() const {
  return tokens.held_bytes() + static_cast<int64_t>(labels.classes.capacity() * sizeof(int32_t) +
                                                    labels.values.capacity() * sizeof(float));
}

}  // namespace plimsoll
