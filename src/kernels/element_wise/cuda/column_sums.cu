#include "kernels/element_wise/cuda/column_sums.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kStrands = static_cast<int>(kCudaPartialStrands);

// Adds the partial sums of each column. Thread (x, y) adds the partial sums y, y + kStrands, y + 2 kStrands and so on of column x. The
// threads with y = 0 then add the results of the other threads.
__global__ void __launch_bounds__(32 * kStrands)
    add_up_partials_kernel(PartialSums partials, const __grid_constant__ SumDestinations to, int64_t C,
                           AddFlag add) {
  __shared__ float shared[kStrands][32];
  wait_for_launch_before();
  const int sum = static_cast<int>(blockIdx.y);
  const AnyFloatsOut destination = to.sum[sum];
  if (destination.data == nullptr) return;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  float total = 0.0f;
  if (c < C) {
    const float* from = partials.row(sum, 0) + c;
#pragma unroll 4
    for (int64_t block = threadIdx.y; block < partials.num_blocks; block += kStrands) {
      total += from[block * partials.stride];
    }
  }
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || c >= C) return;
#pragma unroll
  for (int strand = 1; strand < kStrands; ++strand) total += shared[strand][threadIdx.x];
  destination.store(c, add.get() ? destination.at(c) + total : total);
}

}  // namespace

void add_up_partials(const PartialSums& partials, const SumDestinations& to, int num_sums, int64_t C,
                     const AddFlag& add, CudaStream stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(C, 32)), static_cast<unsigned>(num_sums));
  launch_early(add_up_partials_kernel, {grid, dim3(32, kStrands)}, stream, partials, to, C, add);
}

}  // namespace plimsoll::cuda
