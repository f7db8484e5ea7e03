#include "kernels/communication/all_reduce.h"

namespace plimsoll {

void all_reduce_cuda_nccl(const AllReduceArgs& args, CudaStream stream) {
  args.gpus->all_reduce(args.tensors, stream);
}

}  // namespace plimsoll
