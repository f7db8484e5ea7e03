// Implements device/comm/gpu_communicator.h and device/comm/peer_memory.h if the program is built without CUDA.
#include "base/check.h"
#include "device/comm/gpu_communicator.h"

namespace plimsoll {

std::unique_ptr<GpuCommunicator> connect_gpus(Communicator&, int, const std::string&) {
  PLIMSOLL_CHECK(false,
                 "the caller connects GPUs, but this program was built without CUDA (no nvcc was found)");
}
std::unique_ptr<GpuMessages> connect_messages(Communicator&, int) {
  PLIMSOLL_CHECK(false,
                 "the caller connects GPUs, but this program was built without CUDA (no nvcc was found)");
}
std::unique_ptr<PeerMemory> connect_peers(Communicator&, int, const std::string&) {
  PLIMSOLL_CHECK(false,
                 "the caller connects GPUs, but this program was built without CUDA (no nvcc was found)");
}

}  // namespace plimsoll
