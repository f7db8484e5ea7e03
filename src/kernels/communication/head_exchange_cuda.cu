// The GPU implementations of head_exchange copy rectangles of rows by copy engines: one 2D copy, with a pitch for each side, per rectangle.
#include <cuda_runtime.h>

#include "device/cuda/cuda_error.h"
#include "kernels/communication/head_exchange.h"

namespace plimsoll {
namespace {

// Enqueues the copy of one rectangle: `width` bytes of each of `rows` rows.
void copy_rectangle(std::byte* to, int64_t to_pitch, const std::byte* from, int64_t from_pitch, int64_t width,
                    int64_t rows, CudaStream stream) {
  if (width == 0 || rows == 0) return;
  PLIMSOLL_CUDA(cudaMemcpy2DAsync(to, static_cast<size_t>(to_pitch), from, static_cast<size_t>(from_pitch),
                                  static_cast<size_t>(width), static_cast<size_t>(rows),
                                  cudaMemcpyDeviceToDevice, stream));
}

}  // namespace

void head_exchange_cuda_peers(const HeadExchangeArgs& args, CudaStream stream) {
  PeerMemory& peers = *args.peers;
  const int num_ranks = peers.size();
  const int own = peers.rank();
  const int64_t narrow_bytes = args.narrow_bytes(), wide_bytes = narrow_bytes * num_ranks;
  const auto* x = static_cast<const std::byte*>(args.x.data);
  auto* y = static_cast<std::byte*>(args.y.data);
  peers.meet(PeerMemory::Point::kBegin, stream);
  for (int peer = 0; peer < num_ranks; ++peer) {
    const std::byte* from = x + peers.distance_to(peer);
    const bool to_heads = args.direction == HeadExchange::kToHeads;
    for (const ExchangedBytes& piece : exchanged_bytes(args, to_heads ? own : peer, num_ranks)) {
      if (to_heads) {
        copy_rectangle(y + peer * args.block_bytes() + piece.narrow, narrow_bytes, from + piece.wide,
                       wide_bytes, piece.width, args.rows, stream);
      } else {
        copy_rectangle(y + piece.wide, wide_bytes, from + own * args.block_bytes() + piece.narrow,
                       narrow_bytes, piece.width, args.rows, stream);
      }
    }
  }
  peers.meet(PeerMemory::Point::kEnd, stream);
}

void head_exchange_cuda_nccl(const HeadExchangeArgs& args, CudaStream stream) {
  const int num_ranks = args.communicator->size();
  const int64_t narrow_bytes = args.narrow_bytes(), wide_bytes = narrow_bytes * num_ranks;
  const auto* x = static_cast<const std::byte*>(args.x.data);
  auto* y = static_cast<std::byte*>(args.y.data);
  auto* blocks = static_cast<std::byte*>(args.scratch.data);
  const bool to_heads = args.direction == HeadExchange::kToHeads;
  if (!to_heads) args.gpus->all_to_all(args.x, args.scratch, args.block_bytes(), stream);
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (const ExchangedBytes& piece : exchanged_bytes(args, rank, num_ranks)) {
      std::byte* block = blocks + rank * args.block_bytes() + piece.narrow;
      if (to_heads) {
        copy_rectangle(block, narrow_bytes, x + piece.wide, wide_bytes, piece.width, args.rows, stream);
      } else {
        copy_rectangle(y + piece.wide, wide_bytes, block, narrow_bytes, piece.width, args.rows, stream);
      }
    }
  }
  if (to_heads) args.gpus->all_to_all({args.scratch.data, args.x.dtype}, args.y, args.block_bytes(), stream);
}

}  // namespace plimsoll
