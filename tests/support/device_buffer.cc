#include "tests/support/device_buffer.h"

#include <cuda_runtime_api.h>

#include "device/cuda/cuda_error.h"

namespace plimsoll::test {
namespace {

// Return the beginning and the size of the elements together with the guard zones directly before and after them. The elements begin at a
// multiple of 256 bytes on the device, like a buffer of an arena, because the allocation is aligned to 256 bytes and the guard zone at its
// beginning is 1024 bytes long.
std::byte* host_block(GuardedBuffer& host) {
  return static_cast<std::byte*>(host.view().data) - GuardedBuffer::kGuardBytes;
}
size_t block_bytes(const GuardedBuffer& host) {
  return static_cast<size_t>(host.size_bytes() + 2 * GuardedBuffer::kGuardBytes);
}

}  // namespace

DeviceBuffer::DeviceBuffer(GuardedBuffer& host) : host_(host) {
  void* block = nullptr;
  PLIMSOLL_CUDA(cudaMalloc(&block, block_bytes(host)));
  block_ = static_cast<std::byte*>(block);
  upload();
}

DeviceBuffer::~DeviceBuffer() {
  static_cast<void>(cudaFree(block_));
}

View DeviceBuffer::view() const {
  return {block_ + GuardedBuffer::kGuardBytes, host_.dtype()};
}

View DeviceBuffer::view_from(int64_t first) const {
  return {block_ + GuardedBuffer::kGuardBytes + first * dtype_bytes(host_.dtype()), host_.dtype()};
}

void DeviceBuffer::upload() {
  PLIMSOLL_CUDA(cudaMemcpy(block_, host_block(host_), block_bytes(host_), cudaMemcpyHostToDevice));
}

void DeviceBuffer::download() {
  PLIMSOLL_CUDA(cudaDeviceSynchronize());
  PLIMSOLL_CUDA(cudaMemcpy(host_block(host_), block_, block_bytes(host_), cudaMemcpyDeviceToHost));
}

}  // namespace plimsoll::test
