// reduce_scatter and all_gather of a list of tensors. Each tensor is divided into slices, one per rank: slice r begins at
// element r * slice and has `slice` elements, except that the last slices end with the tensor or are empty.
//
// reduce_scatter: in the slice of this rank, y = sum over the ranks r of x_r, element by element. The other elements of y are
// undefined. all_gather: slice r of y = slice r of x on rank r.
//
// Shapes: any; every rank passes the same list. Types: of reduce_scatter f64, f32, bf16, f16, one for all tensors of the list; of
// all_gather any, which may differ from tensor to tensor.
// Accumulation and error bound: as all_reduce (all_reduce.h). all_gather copies bytes. The order of the sums is fixed by the list
// and the number of ranks N; it may differ from that of all_reduce.
// Aliasing: y is x; in an all_gather the slice of this rank may instead be in memory of its own. Scratch: communication_catalog.h. Repeatable.
// Cost: each rank sends (N - 1) / N of the bytes.
// Errors: kDevice, as Communicator::all_reduce().
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/view.h"
#include "device/comm/communicator.h"

namespace plimsoll {

struct DividedTensor {
  View data;
  int64_t count = 0;   // elements
  int64_t slice = 0;   // elements of the slice of rank 0
  ConstView own = {};  // the slice of this rank, if it is not in `data`; for all_gather only

  int64_t first_of(int64_t rank) const { return std::min(count, rank * slice); }
  int64_t count_of(int64_t rank) const { return std::min(slice, count - first_of(rank)); }
};

struct RankSlicesArgs {
  Communicator* communicator = nullptr;
  std::span<const DividedTensor> tensors = {};
  View scratch = {};
};

// Copies the slices of this rank that have memory of their own into `data`.
void place_own_slices(const RankSlicesArgs& args);

// Copy the slices of small tensors into scratch, in the order of the ranks, and exchange them as one tensor. Each other tensor is
// exchanged where it is.
void reduce_scatter_cpu(const RankSlicesArgs& args);
void all_gather_cpu(const RankSlicesArgs& args);
// Gathers the tensors of all ranks and adds their slices in double precision, in the order of the ranks.
void reduce_scatter_ref(const RankSlicesArgs& args);
// Broadcasts each slice of each tensor.
void all_gather_ref(const RankSlicesArgs& args);

}  // namespace plimsoll
