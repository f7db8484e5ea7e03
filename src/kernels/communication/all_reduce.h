// all_reduce: y = sum over the ranks r of x_r, element by element, for each tensor of a list; in place.
//
// Shapes: any; every rank passes the same list. Types: f64, f32, bf16, f16 or i32, the same for all tensors of the list. Accumulation: in
// the type of the tensors; for bf16 and f16 in fp32 with one rounding at the end, except that NCCL rounds each partial sum to the type of
// the tensors (two ranks need only one sum). The order of the sums depends on the list and the number of ranks N, on GPUs also on the
// connections between them and the version of NCCL. Every rank gets the same bits. Error bound: |y - exact| <= (N - 1) u sum_r |x_r|, plus
// the rounding of y to the type of the tensors, with the unit roundoff u of the type of accumulation (Higham, "Accuracy and Stability of
// Numerical Algorithms", 2nd ed., section 4.2). Aliasing: y is x. Scratch: communication_catalog.h. Repeatable. Cost: each rank sends 2 (N
// - 1) / N of the bytes. Errors: kDevice, as Communicator::all_reduce() and GpuCommunicator::all_reduce().
#pragma once

#include <memory>
#include <span>

#include "base/view.h"
#include "device/comm/communicator.h"
#include "device/comm/gpu_communicator.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct AllReduceArgs {
  Communicator* communicator = nullptr;  // connects the ranks for the kernels on a CPU
  GpuCommunicator* gpus = nullptr;       // connects the ranks for all_reduce_cuda_nccl
  PeerMemory* peers = nullptr;           // the mapped memory of the other GPUs, for all_reduce_cuda_peers
  // Owns the PeerMemory object to which `peers` points if that object was created only for this call; otherwise null.
  std::shared_ptr<PeerMemory> at_offsets = {};
  std::span<const ReducedTensor> tensors = {};
  View scratch = {};
};

// Sums the tensors on a CPU. If the list has several tensors, copies the small ones into scratch memory and reduces them together. Reduces
// every other tensor in place.
void all_reduce_cpu(const AllReduceArgs& args);
// Gathers the tensors of all ranks and adds them in double precision, in the order of the ranks. Tests compare the other kernels with this
// one.
void all_reduce_ref(const AllReduceArgs& args);
// Divides each large tensor into slices, one per rank. Copy engines copy this rank's slice of the other ranks' tensors into scratch memory,
// a kernel adds them, and copy engines copy the sums of the other slices back. Small tensors are summed completely by every rank, by a
// kernel that reads them from the other GPUs. Kernels therefore run only while elements are added. This matters because a matrix product
// whose thread blocks fill the GPU takes twice as long if a single multiprocessor is occupied. Requires: tensors begin at multiples of 16
// bytes.
void all_reduce_cuda_peers(const AllReduceArgs& args, CudaStream stream);
// Sums all tensors in one launch of NCCL.
void all_reduce_cuda_nccl(const AllReduceArgs& args, CudaStream stream);

}  // namespace plimsoll
