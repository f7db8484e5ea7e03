// head_exchange: rearranges a matrix of T rows among N ranks from a division by rows (a rank has T / N rows of all columns) to a division
// by columns (a rank has all rows of 1 / N of the columns), or back. Context parallelism needs it around attention: a rank has some tokens
// with all heads, but attention needs all tokens of some heads. The columns have up to three parts (such as queries, keys and values), each
// of which is divided into N shares, one per rank:
//
//   to heads:  x[T/N, C] -> y[T, C/N]   row t of y on rank s = the shares of rank s in row t of the whole matrix
//   to rows:   x[T, C/N] -> y[T/N, C]   the inverse
//
// Shapes: every rank passes the same sizes. Types: any; the kernel copies bytes, so the bits are those of x. Aliasing: x and y do not
// overlap. Scratch: communication_catalog.h. Repeatable. Cost: each rank sends (N - 1) / N of the bytes of x. Errors: kDevice, as
// Communicator::all_to_all() and GpuCommunicator::all_to_all().
#pragma once

#include <array>
#include <cstdint>

#include "base/view.h"
#include "device/comm/communicator.h"
#include "device/comm/gpu_communicator.h"
#include "device/cuda/stream.h"

namespace plimsoll {

enum class HeadExchange : uint8_t { kToHeads, kToRows };

struct HeadExchangeArgs {
  Communicator* communicator = nullptr;  // the connection to the other ranks on a CPU
  GpuCommunicator* gpus = nullptr;       // the connection for head_exchange_cuda_nccl
  PeerMemory* peers = nullptr;           // the mapped memory for head_exchange_cuda_peers
  HeadExchange direction = HeadExchange::kToHeads;
  ConstView x = {};
  View y = {};
  int64_t rows = 0;  // number of rows of a rank: T / N
  std::array<int64_t, 3> share_bytes =
      {};  // for each part of the columns, the bytes of one rank's share in a row
  View scratch = {};

  // Returns the number of bytes that a row has on a rank if the matrix is divided by columns.
  int64_t narrow_bytes() const { return share_bytes[0] + share_bytes[1] + share_bytes[2]; }
  // Returns the number of bytes that one rank sends to another one.
  int64_t block_bytes() const { return rows * narrow_bytes(); }
};

// A rectangle of bytes that is copied at once: `width` bytes of each row that a rank has if the matrix is divided by rows. `wide` is the
// offset of these bytes in a row with all columns. `narrow` is their offset in the same row of the matrix that is divided by columns.
struct ExchangedBytes {
  int64_t narrow = 0;
  int64_t wide = 0;
  int64_t width = 0;
};
// Returns the rectangles of the share of rank `of_rank`, one per part of the columns. The rectangle of an empty part has the width 0.
inline std::array<ExchangedBytes, 3> exchanged_bytes(const HeadExchangeArgs& args, int of_rank,
                                                     int num_ranks) {
  std::array<ExchangedBytes, 3> rectangles;
  int64_t narrow = 0;
  for (size_t i = 0; i < rectangles.size(); ++i) {
    const int64_t width = args.share_bytes[i];
    rectangles[i] = {.narrow = narrow, .wide = narrow * num_ranks + of_rank * width, .width = width};
    narrow += width;
  }
  return rectangles;
}

// Copies the shares of all ranks into scratch memory, one block per rank, and exchanges the blocks; for kToRows it does the reverse.
void head_exchange_cpu(const HeadExchangeArgs& args);
// Gathers the matrices of all ranks, and copies byte by byte.
void head_exchange_ref(const HeadExchangeArgs& args);
// Copy engines copy the rectangles from the memory of the other GPUs to y. No multiprocessor is used.
void head_exchange_cuda_peers(const HeadExchangeArgs& args, CudaStream stream);
// Works like head_exchange_cpu(), with copies on the GPU and one launch of NCCL.
void head_exchange_cuda_nccl(const HeadExchangeArgs& args, CudaStream stream);

}  // namespace plimsoll
