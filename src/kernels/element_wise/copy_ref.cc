#include "kernels/element_wise/copy.h"

namespace plimsoll {

void copy_ref(const CopyArgs& args) {
  for (int64_t i = 0; i < args.bytes; ++i) args.to[i] = args.from[i];
}

}  // namespace plimsoll
