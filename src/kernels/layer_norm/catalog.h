// What the catalog's rows of this family are made of. Thread-safe: constants.
#pragma once

#include <cstdint>

namespace plimsoll {

// A row is held on the stack in fp32 between the passes over it; longer ones are declined and go to the
// reference.
inline constexpr int64_t kMaxNormColumns = 16384;

}  // namespace plimsoll
