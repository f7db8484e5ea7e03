// reduce_scatter and all_gather of a list of tensors, each of which is divided into slices, one per rank (DividedTensor).
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

#include <memory>
#include <span>

#include "base/view.h"
#include "device/comm/communicator.h"
#include "device/comm/divided_tensor.h"
#include "device/comm/gpu_communicator.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct RankSlicesArgs {
  Communicator* communicator = nullptr;         // of a CPU
  GpuCommunicator* gpus = nullptr;              // of a GPU, for kernels with NCCL
  PeerMemory* peers = nullptr;                  // of a GPU, for kernels with mapped memory
  std::shared_ptr<PeerMemory> at_offsets = {};  // what `peers` points to, if it serves this call alone
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
// Copy engines copy the slices of the other ranks: of sums into scratch, where a kernel adds them up; of gathered tensors to their
// places. Small slices are read in the memory of the other GPUs by one kernel. Tensors, slices that are summed, and slices with memory of
// their own begin at multiples of 16 bytes.
void reduce_scatter_cuda_peers(const RankSlicesArgs& args, CudaStream stream);
void all_gather_cuda_peers(const RankSlicesArgs& args, CudaStream stream);
// Exchange all tensors in one launch of NCCL.
void reduce_scatter_cuda_nccl(const RankSlicesArgs& args, CudaStream stream);
void all_gather_cuda_nccl(const RankSlicesArgs& args, CudaStream stream);

}  // namespace plimsoll
