#include "kernels/communication/all_reduce.h"
#include "kernels/communication/message.h"
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

void send_cuda_nccl(const SendArgs& args, CudaStream stream) {
  args.messages->send(args.x, args.room, args.bytes, args.peer, stream);
}

void receive_cuda_nccl(const ReceiveArgs& args, CudaStream stream) {
  args.messages->receive(args.y, args.bytes, args.peer, stream);
}

}  // namespace plimsoll
