#include "kernels/optimizer/tensor_scan.h"

namespace plimsoll {

void fill_ref(const FillArgs& args) {
  for (int64_t i = 0; i < args.count; ++i) args.x.store(i, args.value);
}

}  // namespace plimsoll
