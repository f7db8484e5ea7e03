// The algorithms of the collective operations, as sequences of transfers between pairs of ranks (gloo_mesh.h). All
// ranks of a group call the same function with the same arguments, except for addresses. A message is received by
// the call with the same `slot`; each function uses the numbers `slot` and `slot + 1`, which no other operation in
// progress may use. `deadline` is the time limit. All functions throw TransferFailure if a transfer fails.
//
// n is the number of ranks of the group, which are numbered from 0. Data is sent in messages of at most kSegmentBytes, so that
// transfers, additions and forwarding overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/comm/gloo_mesh.h"

namespace plimsoll {

inline constexpr size_t kSegmentBytes = size_t{1} << 20;
// Size of the memory into which elements of other ranks are received before they are added.
inline constexpr size_t kStagingBytes = 4 * kSegmentBytes;
// Data of up to this size is summed by direct exchange: its two steps then take less time than the 2 (n -
// 1) steps of a ring. With 4 ranks on 2 cores of one host, summing 256 KiB takes 0.7 ms by direct exchange
// and 1.4 ms in a ring (the shortest of 101 calls); summing 4 MiB takes 5.5 ms with either method.
inline constexpr size_t kDirectBytes = size_t{256} << 10;

// A group of ranks that run operations together. The mesh is the set of all connected ranks.
struct RankGroup {
  std::vector<int> members = {};  // the numbers of these ranks in the mesh
  int rank = 0;                   // index of this rank in `members`
};

struct Transfer {
  GlooMesh& mesh;
  uint64_t slot;
  SteadyTime deadline;
  const RankGroup* group = nullptr;  // the group that runs the operation; null for all ranks of the mesh

  int rank() const { return group != nullptr ? group->rank : mesh.rank(); }
  int size() const { return group != nullptr ? static_cast<int>(group->members.size()) : mesh.size(); }
  // Converts the number of a rank in its group to its number in the mesh of all ranks.
  int in_mesh(int rank_of_group) const {
    return group != nullptr ? group->members[static_cast<size_t>(rank_of_group)] : rank_of_group;
  }
};

// Replaces the elements on every rank by their sums over all ranks. Every rank receives the same bits. T is float, double,
// int32_t, int64_t (both wrap around), BF16 or F16. Each rank sends 2 (n - 1) / n times the data. `staging` has kStagingBytes.
//
// BF16, F16, and data of at most kDirectBytes are summed by direct exchange, in two steps. First, rank r receives part r of the n
// parts of the data from all others, adds the elements in the order of the ranks, and rounds once. Then it sends the sums to all
// ranks. BF16 and F16 are summed in fp32. A ring would have to round, or to send fp32, in every step.
//
// Other data is summed in a ring in 2 (n - 1) steps, which needs fast connections between neighbours only. Chunk c of the n
// chunks travels from rank c through all ranks, each of which adds its own elements. Then the complete sums travel around the
// ring. With x[r] the element of rank r, an element of chunk c becomes x[c] + x[c + 1] + ... (modulo n), added from left to right
// in type T.
template <typename T>
void all_reduce_elements(const Transfer& transfer, std::span<T> data, std::span<std::byte> staging);

// Sums the elements of part r over all ranks on rank r. The data consists of one part per rank, in the order of the ranks; part r has
// counts[r] elements. The other parts are undefined afterwards. The types, the precision of the sums and the choice between direct exchange
// and ring are those of all_reduce_elements(). A ring starts the sums of part r on rank r + 1, so that the order of the additions differs
// from that of all_reduce_elements(). Each rank sends (n - 1) / n times the data.
template <typename T>
void reduce_scatter_elements(const Transfer& transfer, std::span<T> data, std::span<const int64_t> counts,
                             std::span<std::byte> staging);

// Sends the bytes of the rank `root` along the chain root, root + 1, ..., in several messages, so that forwarding overlaps with receiving.
void chain_broadcast(const Transfer& transfer, std::span<std::byte> bytes, int root);
// Gathers the blocks of all ranks on every rank, by passing them around a ring. `all` consists of n blocks of equal size.
// Initially each rank has only block `rank`.
void ring_all_gather(const Transfer& transfer, std::span<std::byte> all);
// Gathers the parts of all ranks on every rank, by passing them around a ring. `all` consists of n parts; part r has
// part_bytes[r] bytes. Initially each rank has only part `rank`.
void ring_all_gather_parts(const Transfer& transfer, std::span<std::byte> all,
                           std::span<const int64_t> part_bytes);
// Exchanges one block between every two ranks, all at the same time: `mine` and `received` consist of n blocks of equal size, one per rank.
void direct_all_to_all(const Transfer& transfer, std::span<const std::byte> mine,
                       std::span<std::byte> received);
// A barrier: returns when all ranks have called it, after ceil(log2 n) rounds of messages (Hensgen, Finkel and Manber, 1988).
void dissemination_barrier(const Transfer& transfer);

}  // namespace plimsoll
