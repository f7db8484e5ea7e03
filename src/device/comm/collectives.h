// The algorithms of the collective operations, as sequences of transfers between pairs of ranks (gloo_mesh.h). Each
// function is called by all ranks with the same arguments, except for addresses. `slot` identifies one call and the
// call after it: a function uses `slot` and `slot + 1`. `deadline` is the time limit. All throw TransferFailure.
//
// n is the number of ranks. A message has at most kSegmentBytes, so that transfers, sums and forwarding overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/comm/gloo_mesh.h"

namespace plimsoll {

inline constexpr size_t kSegmentBytes = size_t{1} << 20;
// Memory for data that is received and then added.
inline constexpr size_t kStagingBytes = 4 * kSegmentBytes;

struct Transfer {
  GlooMesh& mesh;
  uint64_t slot;
  SteadyTime deadline;
};

// Sums in a ring: chunk c of n travels from rank c through all ranks, each of which adds its own elements, and then the
// sums travel on. Each rank sends 2 (n - 1) / n times the data. Element i of chunk c is x[c] + x[c + 1] + ... (modulo
// n), added from left to right in T, so every rank receives the same bits. T: float, double, int32_t, int64_t; integers
// wrap around. `staging` has kStagingBytes, of which 2 kSegmentBytes are used.
template <typename T>
void ring_all_reduce(const Transfer& transfer, std::span<T> data, std::span<std::byte> staging);

enum class HalfType : uint8_t { kBF16, kF16 };
// Sums 16-bit floating-point numbers in fp32: rank r receives part r of n from all others, adds the elements in the
// order of the ranks in fp32, rounds once, and sends the result to all. Each rank sends 2 (n - 1) / n times the data,
// as in a ring, which would have to round, or to send fp32, in every step. `staging` has kStagingBytes.
void direct_all_reduce(const Transfer& transfer, std::span<uint16_t> data, HalfType type,
                       std::span<std::byte> staging);

// Sends the bytes of `root` along the chain root, root + 1, ..., in segments.
void chain_broadcast(const Transfer& transfer, std::span<std::byte> bytes, int root);
// Completes `all`, of which each rank has block `rank` of n equal blocks, in a ring.
void ring_all_gather(const Transfer& transfer, std::span<std::byte> all);
// Returns when all ranks called it, after ceil(log2 n) rounds (Hensgen, Finkel and Manber, 1988).
void dissemination_barrier(const Transfer& transfer);

}  // namespace plimsoll
