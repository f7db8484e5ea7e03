// reduce_scatter and all_gather of a list of tensors, each of which is divided into slices, one per rank (DividedTensor).
//
// reduce_scatter: in the slice of this rank, y = sum over the ranks r of x_r, element by element. The other elements of y are
// undefined. all_gather: slice r of y = slice r of x on rank r.
//
// Shapes: any; every rank passes the same list. Types: reduce_scatter takes f64, f32, bf16 and f16, one type for all tensors of the list;
// all_gather takes any type, which may differ from tensor to tensor. Accumulation and error bound: as all_reduce (all_reduce.h). all_gather
// copies bytes. The order of the sums is fixed by the list and the number of ranks N; it may differ from that of all_reduce. Aliasing: y is
// x; in an all_gather the slice of this rank may instead be stored outside y. Scratch: communication_catalog.h. Repeatable. Cost: each rank
// sends (N - 1) / N of the bytes. Errors: kDevice, as Communicator::all_reduce().
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
  Communicator* communicator = nullptr;  // connects the ranks for the kernels on a CPU
  GpuCommunicator* gpus = nullptr;       // connects the ranks for the kernels that use NCCL
  PeerMemory* peers = nullptr;           // the mapped memory of the other GPUs, for the kernels that use it
  // Owns the PeerMemory object to which `peers` points if that object was created only for this call; otherwise null.
  std::shared_ptr<PeerMemory> at_offsets = {};
  std::span<const DividedTensor> tensors = {};
  View scratch = {};
};

// Copies the slices of this rank that are stored outside their tensors (DividedTensor::own) into the tensors.
void place_own_slices(const RankSlicesArgs& args);

// reduce_scatter and all_gather on a CPU. Small tensors are copied into scratch memory, slice by slice in the order of the ranks, and
// exchanged as one tensor. All other tensors are exchanged in place.
void reduce_scatter_cpu(const RankSlicesArgs& args);
void all_gather_cpu(const RankSlicesArgs& args);
// Gathers the tensors of all ranks and adds their slices in double precision, in the order of the ranks. Tests compare the other kernels
// with this one.
void reduce_scatter_ref(const RankSlicesArgs& args);
// The reference of all_gather, in which each rank broadcasts its slice of each tensor.
void all_gather_ref(const RankSlicesArgs& args);
// The kernels that use memory that the GPUs of all ranks map. Copy engines copy the slices of the other ranks: for reduce_scatter into
// scratch memory, where a kernel adds them, and for all_gather into the tensors. Copy engines do not copy small slices; one kernel reads
// them directly in the memory of the other GPUs. Requires: tensors, slices that are summed, and slices stored outside the tensors begin
// at multiples of 16 bytes.
void reduce_scatter_cuda_peers(const RankSlicesArgs& args, CudaStream stream);
void all_gather_cuda_peers(const RankSlicesArgs& args, CudaStream stream);
// Sum or gather all tensors in one launch of NCCL.
void reduce_scatter_cuda_nccl(const RankSlicesArgs& args, CudaStream stream);
void all_gather_cuda_nccl(const RankSlicesArgs& args, CudaStream stream);

}  // namespace plimsoll
