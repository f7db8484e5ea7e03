#include "kernels/optimizer/tensor_scan.h"

#include "kernels/optimizer/piece_cpu.h"

namespace plimsoll {

void copy_weights_cpu(const WeightCopyArgs& args) {
  const OptimizerTensor tensor{
      .param = {const_cast<void*>(args.weight.data), args.weight.dtype}, .count = args.n, .low = args.low};
  parallel_over_tensors({&tensor, 1}, [&](int64_t, size_t, int64_t begin, int64_t count) {
    store_low_copy(tensor, begin, count);
  });
}

}  // namespace plimsoll
