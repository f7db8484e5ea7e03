#include <cuda_runtime_api.h>

#include "device/cuda/cuda_error.h"
#include "kernels/communication/message.h"

namespace plimsoll {

void send_cuda_peers(const SendArgs& args, CudaStream stream) {
  args.peers->wait_until_taken(args.peer, stream);
  PLIMSOLL_CUDA(cudaMemcpyAsync(args.room.data, args.x.data, static_cast<size_t>(args.bytes),
                                cudaMemcpyDeviceToDevice, stream));
  args.peers->announce_message(args.peer, stream);
}

void receive_cuda_peers(const ReceiveArgs& args, CudaStream stream) {
  args.peers->wait_for_message(args.peer, stream);
  PLIMSOLL_CUDA(cudaMemcpyAsync(args.y.data, args.room.data, static_cast<size_t>(args.bytes),
                                cudaMemcpyDeviceToDevice, stream));
  args.peers->take_message(args.peer, stream);
}

}  // namespace plimsoll
