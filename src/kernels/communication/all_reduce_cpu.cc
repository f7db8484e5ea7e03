#include <cstddef>
#include <cstring>

#include "kernels/communication/all_reduce.h"
#include "kernels/communication/communication_catalog.h"

namespace plimsoll {
namespace {

size_t bytes_of(const ReducedTensor& tensor) {
  return static_cast<size_t>(tensor.count * dtype_bytes(tensor.data.dtype));
}

bool is_small(const ReducedTensor& tensor) {
  return bytes_of(tensor) < static_cast<size_t>(kSmallTensorBytes);
}

}  // namespace

void all_reduce_cpu(const AllReduceArgs& args) {
  if (args.tensors.size() == 1) {
    const ReducedTensor& tensor = args.tensors.front();
    if (tensor.count > 0) args.communicator->all_reduce(tensor.data, tensor.count);
    return;
  }
  int64_t num_small = 0;
  size_t end = 0;
  auto* scratch = static_cast<std::byte*>(args.scratch.data);
  for (const ReducedTensor& tensor : args.tensors) {
    if (!is_small(tensor) || tensor.count == 0) continue;
    std::memcpy(scratch + end, tensor.data.data, bytes_of(tensor));
    end += bytes_of(tensor);
    num_small += tensor.count;
  }
  if (num_small > 0) args.communicator->all_reduce({scratch, args.tensors.front().data.dtype}, num_small);
  size_t begin = 0;
  for (const ReducedTensor& tensor : args.tensors) {
    if (!is_small(tensor)) {
      args.communicator->all_reduce(tensor.data, tensor.count);
    } else if (tensor.count > 0) {
      std::memcpy(tensor.data.data, scratch + begin, bytes_of(tensor));
      begin += bytes_of(tensor);
    }
  }
}

}  // namespace plimsoll
