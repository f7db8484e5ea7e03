#include <cstddef>
#include <cstring>

#include "kernels/communication/head_exchange.h"

namespace plimsoll {
namespace {

// Calls copy(narrow, wide, bytes) for each range of bytes that is exchanged: the share of one rank in one part of the columns of one row.
// `narrow` is the offset of these bytes in an array with one block per rank, and `wide` is their offset in the matrix with all columns.
template <typename Copy>
void for_each_piece(const HeadExchangeArgs& args, int num_ranks, const Copy& copy) {
  const int64_t wide_bytes = args.narrow_bytes() * num_ranks;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto rectangles = exchanged_bytes(args, rank, num_ranks);
    for (int64_t row = 0; row < args.rows; ++row) {
      const int64_t narrow = rank * args.block_bytes() + row * args.narrow_bytes();
      for (const ExchangedBytes& piece : rectangles) {
        if (piece.width > 0)
          copy(narrow + piece.narrow, row * wide_bytes + piece.wide, static_cast<size_t>(piece.width));
      }
    }
  }
}

}  // namespace

void head_exchange_cpu(const HeadExchangeArgs& args) {
  const int num_ranks = args.communicator->size();
  const auto bytes = static_cast<size_t>(args.block_bytes() * num_ranks);
  if (bytes == 0) return;
  const auto* x = static_cast<const std::byte*>(args.x.data);
  auto* y = static_cast<std::byte*>(args.y.data);
  auto* blocks = static_cast<std::byte*>(args.scratch.data);
  if (args.direction == HeadExchange::kToHeads) {
    for_each_piece(args, num_ranks, [&](int64_t block, int64_t matrix, size_t width) {
      std::memcpy(blocks + block, x + matrix, width);
    });
    args.communicator->all_to_all({blocks, bytes}, {y, bytes});
    return;
  }
  args.communicator->all_to_all({x, bytes}, {blocks, bytes});
  for_each_piece(args, num_ranks, [&](int64_t block, int64_t matrix, size_t width) {
    std::memcpy(y + matrix, blocks + block, width);
  });
}

void head_exchange_ref(const HeadExchangeArgs& args) {
  const int num_ranks = args.communicator->size();
  const int own = args.communicator->rank();
  const auto bytes = static_cast<size_t>(args.block_bytes() * num_ranks);
  if (bytes == 0) return;
  auto* all = static_cast<std::byte*>(args.scratch.data);
  args.communicator->all_gather({static_cast<const std::byte*>(args.x.data), bytes},
                                {all, bytes * static_cast<size_t>(num_ranks)});
  auto* y = static_cast<std::byte*>(args.y.data);
  const bool to_heads = args.direction == HeadExchange::kToHeads;
  const int64_t narrow_bytes = args.narrow_bytes(), wide_bytes = narrow_bytes * num_ranks;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::byte* x = all + static_cast<size_t>(rank) * bytes;
    // Copies what this rank receives from the rank `rank`. To heads: this rank's shares in the rows of that rank. To rows: the shares of
    // that rank in this rank's rows.
    for (const ExchangedBytes& piece : exchanged_bytes(args, to_heads ? own : rank, num_ranks)) {
      for (int64_t row = 0; row < args.rows; ++row) {
        const int64_t narrow = ((to_heads ? rank : own) * args.rows + row) * narrow_bytes + piece.narrow;
        const int64_t wide = row * wide_bytes + piece.wide;
        for (int64_t i = 0; i < piece.width; ++i) {
          if (to_heads) {
            y[narrow + i] = x[wide + i];
          } else {
            y[wide + i] = x[narrow + i];
          }
        }
      }
    }
  }
}

}  // namespace plimsoll
