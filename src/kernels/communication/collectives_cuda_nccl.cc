#include "kernels/communication/all_reduce.h"
#include "kernels/communication/reduce_scatter.h"

namespace plimsoll {

void all_reduce_cuda_nccl(const AllReduceArgs& args, CudaStream stream) {
  args.gpus->all_reduce(args.tensors, stream);
}

void reduce_scatter_cuda_nccl(const RankSlicesArgs& args, CudaStream stream) {
  args.gpus->reduce_scatter(args.tensors, stream);
}

void all_gather_cuda_nccl(const RankSlicesArgs& args, CudaStream stream) {
  args.gpus->all_gather(args.tensors, stream);
}

}  // namespace plimsoll
