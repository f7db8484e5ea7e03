#include <cstring>

#include "kernels/element_wise/cast.h"

namespace plimsoll {

void copy_cpu(const CopyArgs& args) {
  if (args.bytes > 0) std::memcpy(args.to, args.from, static_cast<size_t>(args.bytes));
}

}  // namespace plimsoll
