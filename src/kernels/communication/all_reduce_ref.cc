#include <cstddef>

#include "kernels/communication/all_reduce.h"

namespace plimsoll {

void all_reduce_ref(const AllReduceArgs& args) {
  const int num_ranks = args.communicator->size();
  for (const ReducedTensor& tensor : args.tensors) {
    const auto bytes = static_cast<size_t>(tensor.count * dtype_bytes(tensor.data.dtype));
    if (bytes == 0) continue;
    auto* gathered = static_cast<std::byte*>(args.scratch.data);
    args.communicator->all_gather({static_cast<const std::byte*>(tensor.data.data), bytes},
                                  {gathered, bytes * static_cast<size_t>(num_ranks)});
    for (int64_t i = 0; i < tensor.count; ++i) {
      double sum = 0;
      for (int rank = 0; rank < num_ranks; ++rank)
        sum += ConstView{gathered + static_cast<size_t>(rank) * bytes, tensor.data.dtype}.load(i);
      tensor.data.store(i, sum);
    }
  }
}

}  // namespace plimsoll
