// The kernel that AdamW, Lion, SGD and Adagrad with 8-bit states share: the warps of a multiprocessor take quantization blocks of 256
// elements from a queue, and a warp loads the operands of its next quantization block before it computes the current one. The number of
// instructions limits these kernels: in the time that the memory needs for the bytes of an element (16, or 10 if weights are stored only
// in bf16), a multiprocessor of an H200 issues 112 or 70 instructions, and AdamW executes about 70 with weights that are stored only in
// bf16. Only for .cu files. Thread-safe: no state.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/optimizer/cuda/eight_bit_block.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"

namespace plimsoll::cuda {

// The number of warps of a thread block. A multiprocessor runs one thread block, each of whose warps takes another quantization block when
// it has finished one. If the quantization blocks were assigned in advance, some warps would be idle after four fifths of the time, because
// the scheduler prefers the warps that have waited longest. With more warps, the registers would not suffice for the operands that are
// loaded ahead.
template <bool kHasV>
inline constexpr int kEightBitWarps = kHasV ? 24 : 28;
template <bool kHasV>
inline constexpr int kEightBitThreads = 32 * kEightBitWarps<kHasV>;
// The number of adjacent quantization blocks that form a chunk. Consecutive chunks are assigned to the thread blocks in turn.
inline constexpr uint32_t kChunkBlocks = 8;
inline constexpr int64_t kEightBitChunk = kChunkBlocks * kEightBitBlock;

// The quantization block that a warp updates next. The cursor remembers the tensor that contains it and the range of the tensor's chunks,
// so that it searches the table of tensors only when it reaches another tensor.
struct EightBitCursor {
  uint32_t chunk = 0;
  uint32_t first_chunk = 0;  // number of the first chunk of the current tensor
  uint32_t end_chunk = 0;    // number of the chunk after the last one of the current tensor
  // The number of quantization blocks of the tensor that update_whole_block() can update; 0 if there is none, or after the last tensor.
  uint32_t whole_blocks = 0;
  int index = 0;       // index of the current tensor in the table of tensors
  uint32_t block = 0;  // index of the quantization block in the current tensor
  bool is_whole = false;

  // Moves to the quantization block with index `number` among those that this thread block updates. Requires: `number` is larger than in
  // the previous call.
  template <class Table>
  __device__ __forceinline__ void go_to(const Table& table, uint32_t number) {
    chunk = number / kChunkBlocks * gridDim.x + blockIdx.x;
    if (chunk >= end_chunk) enter(table);
    block = (chunk - first_chunk) * kChunkBlocks + number % kChunkBlocks;
    is_whole = block < whole_blocks;
  }

 private:
  template <class Table>
  __device__ __forceinline__ void enter(const Table& table) {
    whole_blocks = 0;
    if (chunk >= table.num_chunks) return;
    index = table.find(chunk);
    const EightBitEntry& entry = table.entries[index];
    first_chunk = entry.first_chunk;
    end_chunk = index + 1 < table.num_entries ? table.entries[index + 1].first_chunk : table.num_chunks;
    if (entry.packs) whole_blocks = static_cast<uint32_t>(entry.count / kEightBitBlock);
  }
};

// The queue from which the warps of a thread block take the quantization blocks that they update. The first quantization block of each warp
// is fixed.
struct EightBitQueue {
  uint32_t next;  // address, in shared memory, of the counter of the quantization blocks that have been taken
  uint32_t requested;  // the result of lane 0's last request; take() waits for it

  static __device__ __forceinline__ uint32_t first() { return threadIdx.x / 32; }
  // Requests the number of the next quantization block without waiting for it. nvcc would compile atomicAdd to a sum over the warp, which
  // waits for the result immediately.
  __device__ __forceinline__ void request() {
    if (threadIdx.x % 32 == 0) {
      asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(requested) : "r"(next) : "memory");
    }
  }
  __device__ __forceinline__ uint32_t take() {
    const uint32_t number = __shfl_sync(0xffffffffu, requested, 0);
    request();
    return number;
  }
};

// The data that a thread block keeps in shared memory.
template <bool kHasV, class Step>
struct EightBitShared {
  SharedMap maps[kHasV ? 2 : 1];
  Step step;
  uint32_t next_block;
};

// Updates all quantization blocks of the tensors of a table. A warp loads the operands of its next quantization block while it computes the
// current one. The caller may write shared.step shortly before the call, because the function reads it only after a barrier. `noise` draws
// the random numbers of the list's first tensor; the site in their key increases by one per tensor.
template <class Param, class Grad, bool kHasV, class Table, class Step>
__device__ __forceinline__ void update_eight_bit(const Table& table, EightBitShared<kHasV, Step>& shared,
                                                 Noise noise) {
  BlockOperands<Param, Grad, kHasV> operands;
  EightBitCursor next;
  next.go_to(table, EightBitQueue::first());
  if (next.is_whole) operands.load(table.entries[next.index], next.block);
  SharedMap* maps = shared.maps;
  maps[0].load(kSignedMap);
  if constexpr (kHasV) maps[1].load(kUnsignedMap);
  if (threadIdx.x == 0) shared.next_block = kEightBitWarps<kHasV>;
  __syncthreads();
  const Step step = shared.step;
  EightBitQueue queue{.next = static_cast<uint32_t>(__cvta_generic_to_shared(&shared.next_block)),
                      .requested = 0};
  queue.request();
  const uint32_t first_site = noise.site + static_cast<uint32_t>(table.first_index);
  const auto advance = [&] {
    next.go_to(table, queue.take());
    if (next.is_whole) operands.load(table.entries[next.index], next.block);
  };
  for (;;) {
    while (next.is_whole) {
      const EightBitEntry& entry = table.entries[next.index];
      const uint32_t block = next.block;
      noise.site = first_site + static_cast<uint32_t>(next.index);
      BlockNumbers<kHasV> x;
      if constexpr (!std::is_same_v<Param, float>) {
        noise.draw_eight(entry.first + LaneLayout<Param>::first(block), x.noise);
      }
      x.unpack_from(operands, maps, entry.grad_dtype);
      advance();
      update_whole_block<Param, kHasV>(entry, block, x, maps, step);
    }
    if (next.chunk >= table.num_chunks) return;
    const EightBitEntry& entry = table.entries[next.index];
    noise.site = first_site + static_cast<uint32_t>(next.index);
    if (int64_t{next.block} * kEightBitBlock < entry.count) {
      update_part_block<Param, kHasV>(entry, next.block, maps, step, noise.where());
    }
    // Sets the operands to zero, so that the compiler need not save their registers while update_part_block() runs.
    operands = {};
    advance();
  }
}

// Checks a tensor of an update and returns its entry in the table that is passed to the kernel.
struct EightBitEntryMaker {
  const char* kernel;
  bool has_v;
  DType param_dtype;  // the type that the parameters of all tensors must have

  EightBitEntry operator()(const OptimizerTensor& tensor) const {
    check_cuda_operands(kernel, {{"grad", tensor.grad}});
    PLIMSOLL_CHECK(!tensor.low || tensor.low.dtype == DType::kBF16 || tensor.low.dtype == DType::kF16,
                   "{}: the low-precision copy of a parameter must be bf16 or f16, but is {}", kernel,
                   dtype_name(tensor.low.dtype));
    PLIMSOLL_CHECK(
        tensor.param.dtype == param_dtype && !tensor.remainder,
        "{}: all parameters of a list must be unsplit and of one type, but one is {} and the first is {}",
        kernel, dtype_name(tensor.param.dtype), dtype_name(param_dtype));
    EightBitEntry entry{};
    entry.param = tensor.param.data;
    entry.grad = tensor.grad.data;
    entry.m = tensor.m.as<uint8_t>();
    entry.m_absmax = tensor.m_absmax.as<float>();
    entry.v = has_v ? tensor.v.as<uint8_t>() : nullptr;
    entry.v_absmax = has_v ? tensor.v_absmax.as<float>() : nullptr;
    entry.low = tensor.low.data;
    entry.count = tensor.count;
    entry.first = tensor.first;
    entry.grad_dtype = tensor.grad.dtype;
    entry.low_dtype = tensor.low.dtype;
    entry.packs =
        tensor.first % 8 == 0 && aligned_to_packs({entry.param, entry.grad, entry.m, entry.v, entry.low});
    return entry;
  }
};

// The kernel that updates the tensors of one table. make_step(scalars) must return the object that updates one element; the device calls
// it.
template <class Param, class Grad, bool kHasV, auto make_step, class Scalars, class Table>
static __global__ void __launch_bounds__(kEightBitThreads<kHasV>, 1)
    eight_bit_kernel(const Scalars scalars, const __grid_constant__ Table table) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ EightBitShared<kHasV, decltype(make_step(scalars))> shared;
  if (threadIdx.x == 0) shared.step = make_step(scalars);
  update_eight_bit<Param, Grad>(table, shared, Noise(scalars.noise));
}

// Updates all tensors, with one launch per table of tensors. Requires: the parameters are all f32, or are all stored only in bf16.
template <bool kHasV, auto make_step, class Scalars>
void launch_eight_bit(const char* kernel, std::span<const OptimizerTensor> tensors, const Scalars& scalars,
                      CudaStream stream) {
  const DType dtype = tensors.empty() ? DType::kF32 : tensors.front().param.dtype;
  PLIMSOLL_CHECK(dtype == DType::kF32 || dtype == DType::kBF16,
                 "{}: parameters must be f32 or bf16, but are {}", kernel, dtype_name(dtype));
  const auto processors = static_cast<uint32_t>(device_attribute<cudaDevAttrMultiProcessorCount>());
  for_each_table<EightBitEntry>(
      tensors, kEightBitChunk, EightBitEntryMaker{kernel, kHasV, dtype}, [&](const auto& table) {
        if (table.num_chunks == 0) return;
        using Table = std::remove_cvref_t<decltype(table)>;
        const auto launch = [&](auto* update) {
          update<<<std::min(table.num_chunks, processors), kEightBitThreads<kHasV>, 0, stream>>>(scalars,
                                                                                                 table);
          PLIMSOLL_CHECK_LAUNCH("eight_bit_kernel");
        };
        const std::span entries(table.entries, static_cast<size_t>(table.num_entries));
        const auto grads_are = [&](DType all) {
          return std::ranges::all_of(
              entries, [&](DType grad) { return grad == all; }, &EightBitEntry::grad_dtype);
        };
        if (dtype == DType::kF32 && grads_are(DType::kF32)) {
          launch(eight_bit_kernel<float, float, kHasV, make_step, Scalars, Table>);
        } else if (dtype == DType::kF32 && grads_are(DType::kBF16)) {
          launch(eight_bit_kernel<float, __nv_bfloat16, kHasV, make_step, Scalars, Table>);
        } else if (dtype == DType::kF32) {
          launch(eight_bit_kernel<float, void, kHasV, make_step, Scalars, Table>);
        } else if (grads_are(DType::kBF16)) {
          launch(eight_bit_kernel<__nv_bfloat16, __nv_bfloat16, kHasV, make_step, Scalars, Table>);
        } else {
          launch(eight_bit_kernel<__nv_bfloat16, void, kHasV, make_step, Scalars, Table>);
        }
      });
}

}  // namespace plimsoll::cuda
