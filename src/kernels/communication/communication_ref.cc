// The reference implementations of the kernels that exchange data between ranks. Sums are computed in double in the order of the ranks.
#include <cstddef>

#include "kernels/communication/all_reduce.h"
#include "kernels/communication/message.h"
#include "kernels/communication/reduce_scatter.h"

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

void send_ref(const SendArgs& args) {
  args.communicator->wait_sent({args.peer, args.channel});
  const auto* x = static_cast<const std::byte*>(args.x.data);
  auto* room = static_cast<std::byte*>(args.room.data);
  for (int64_t i = 0; i < args.bytes; ++i) room[i] = x[i];
  args.communicator->send({room, static_cast<size_t>(args.bytes)}, {args.peer, args.channel});
}

void receive_ref(const ReceiveArgs& args) {
  args.communicator->receive({static_cast<std::byte*>(args.y.data), static_cast<size_t>(args.bytes)},
                             {args.peer, args.channel});
}

void reduce_scatter_ref(const RankSlicesArgs& args) {
  const int num_ranks = args.communicator->size();
  const int own = args.communicator->rank();
  for (const DividedTensor& tensor : args.tensors) {
    const auto bytes = static_cast<size_t>(tensor.count * dtype_bytes(tensor.data.dtype));
    if (bytes == 0) continue;
    auto* gathered = static_cast<std::byte*>(args.scratch.data);
    args.communicator->all_gather({static_cast<const std::byte*>(tensor.data.data), bytes},
                                  {gathered, bytes * static_cast<size_t>(num_ranks)});
    const int64_t first = tensor.first_of(own);
    for (int64_t i = first; i < first + tensor.count_of(own); ++i) {
      double sum = 0;
      for (int rank = 0; rank < num_ranks; ++rank)
        sum += ConstView{gathered + static_cast<size_t>(rank) * bytes, tensor.data.dtype}.load(i);
      tensor.data.store(i, sum);
    }
  }
}

void all_gather_ref(const RankSlicesArgs& args) {
  place_own_slices(args);
  for (const DividedTensor& tensor : args.tensors) {
    const int64_t width = dtype_bytes(tensor.data.dtype);
    for (int rank = 0; rank < args.communicator->size(); ++rank) {
      args.communicator->broadcast({static_cast<std::byte*>(tensor.data.data) + tensor.first_of(rank) * width,
                                    static_cast<size_t>(tensor.count_of(rank) * width)},
                                   rank);
    }
  }
}

}  // namespace plimsoll
