// The algorithms of the collective operations, as sequences of transfers between pairs of ranks (gloo_mesh.h). Each
// function is called by all ranks of a group with the same arguments, except for addresses. `slot` identifies one call and
// the call after it: a function uses `slot` and `slot + 1`. `deadline` is the time limit. All throw TransferFailure.
//
// n is the number of ranks of the group, which are numbered from 0. A message has at most kSegmentBytes, so that transfers,
// sums and forwarding overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/comm/gloo_mesh.h"

namespace plimsoll {

inline constexpr size_t kSegmentBytes = size_t{1} << 20;
// Size of the memory into which data is received before it is added.
inline constexpr size_t kStagingBytes = 4 * kSegmentBytes;
// Up to this size, the two steps of a direct exchange take less time than the 2 (n - 1) steps of a ring. With 4 ranks
// on 2 cores of one host, 256 KiB take 0.7 ms directly and 1.4 ms in a ring (the shortest of 101 calls); 4 MiB take 5.5
// ms both ways.
inline constexpr size_t kDirectBytes = size_t{256} << 10;

// Some of the ranks of a mesh, which run operations together.
struct RankGroup {
  std::vector<int> members = {};  // their rank numbers in the mesh
  int rank = 0;                   // the position of this rank in the list
};

struct Transfer {
  GlooMesh& mesh;
  uint64_t slot;
  SteadyTime deadline;
  const RankGroup* group = nullptr;  // null: all ranks of the mesh

  int rank() const { return group != nullptr ? group->rank : mesh.rank(); }
  int size() const { return group != nullptr ? static_cast<int>(group->members.size()) : mesh.size(); }
  // Returns the number in the mesh of the rank with this number in the group.
  int in_mesh(int rank_of_group) const {
    return group != nullptr ? group->members[static_cast<size_t>(rank_of_group)] : rank_of_group;
  }
};

// Sums the elements over all ranks. T: float, double, int32_t, int64_t (which wrap around), BF16, F16. Every rank
// receives the same bits. Each rank sends 2 (n - 1) / n times the data. `staging` has kStagingBytes.
//
// BF16, F16, and all data of at most kDirectBytes are summed by direct exchange, in two steps: rank r receives part r
// of n from all others, adds the elements in the order of the ranks, rounds once, and sends the sums to all. The sums
// of BF16 and F16 are fp32; a ring would have to round, or to send fp32, in every step.
//
// Other data is summed in a ring, in 2 (n - 1) steps, which needs a fast connection between neighbours only: chunk c of
// n travels from rank c through all ranks, each of which adds its own elements, and then the sums travel on. An element
// of chunk c is x[c] + x[c + 1] + ... (modulo n), added from left to right in T.
template <typename T>
void all_reduce_elements(const Transfer& transfer, std::span<T> data, std::span<std::byte> staging);

// Sums part r of the elements over all ranks on rank r: data consists of counts[r] elements per rank, in the order of the ranks.
// The other parts are undefined afterwards. The types, the types of the sums and the choice between a direct exchange and a ring
// are those of all_reduce_elements(). A ring begins with part r on rank r + 1, so that its order of the sums differs. Each rank
// sends (n - 1) / n times the data.
template <typename T>
void reduce_scatter_elements(const Transfer& transfer, std::span<T> data, std::span<const int64_t> counts,
                             std::span<std::byte> staging);

// Sends the bytes of the rank `root` along the chain root, root + 1, ..., in segments.
void chain_broadcast(const Transfer& transfer, std::span<std::byte> bytes, int root);
// Gathers the blocks of all ranks in a ring. `all` consists of n equal blocks, of which each rank initially has block `rank`, and at the
// end all.
void ring_all_gather(const Transfer& transfer, std::span<std::byte> all);
// Gathers the parts of all ranks in a ring. `all` consists of n parts, of part_bytes[r] bytes each; initially each rank has part `rank`,
// and at the end all.
void ring_all_gather_parts(const Transfer& transfer, std::span<std::byte> all,
                           std::span<const int64_t> part_bytes);
// Exchanges one block between every two ranks, all at the same time: `mine` and `received` consist of n equal blocks, one per rank.
void direct_all_to_all(const Transfer& transfer, std::span<const std::byte> mine,
                       std::span<std::byte> received);
// Returns when all ranks called it, after ceil(log2 n) rounds (Hensgen, Finkel and Manber, 1988).
void dissemination_barrier(const Transfer& transfer);

}  // namespace plimsoll
