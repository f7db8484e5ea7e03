// Linear layers on Hopper with the norm that follows them. Adjacent thread blocks loop over tiles of the same rows, each over different 256
// columns of y (linear_tiles.cuh). A finished tile, with its bias added and rounded to 16 bits, stays in registers while the products of
// the next tile run. Meanwhile it is processed twice, in 16 steps of 16 columns each. In the first 16 steps the residual (the "addend") is
// added and the rows are summed up. Then the blocks exchange the sums of their rows through device memory. Some stages of products later,
// in the other 16 steps, the rows are normalized and written.
//
// The sums of a row are one 64-bit number, which is written and read atomically. Before the launch, all of these numbers are set to a value
// that no sums can have, so a reader that sees another value has read valid sums. The launch is cooperative, so all blocks run at the same
// time and none waits for a block that cannot start.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "device/cuda/cuda_error.h"
#include "kernels/matmul/linear_cuda_wgmma.h"
#include "kernels/matmul/linear_tiles.cuh"

namespace plimsoll {
namespace {

using namespace linear;

constexpr int kStepsOfPart = 4;  // a part of a tile has 64 columns, and each step processes 16
constexpr int kAddSteps = kParts * kStepsOfPart;
constexpr int kSteps = 2 * kAddSteps;
constexpr int kStagesApart = 4;
constexpr uint64_t kNoSums = ~uint64_t{0};
// The offset in shared memory of an array with gain and beta (fp32) of each column that the thread block computes.
constexpr uint32_t kFactorsAt = kSharedBytes;
constexpr uint32_t kNormSharedBytes = kFactorsAt + kColumns * sizeof(float2);
static_assert(kLinearNormTilesAcross <= 8,
              "each of the four threads of a row reads the sums of at most two blocks");

// The steps of a finished tile run between the products of the next tile. Returns the number of stages of products (64 columns of x and w
// each) that pass until the last step if `steps_of_stage` steps run per stage.
constexpr int stages_for(int steps_of_stage) {
  return 2 * ((kAddSteps + steps_of_stage - 1) / steps_of_stage) + kStagesApart;
}

struct NormArgs {
  Args layer;
  cuda::AnyFloats gain, beta;
  float eps;
  uint64_t* sums;  // the sums that thread blocks exchange, shape [tiles_down, tiles_across, kRows]
};

// The mean of a group of elements of a row, and the sum of the squared differences from it.
struct Sums {
  float mean, squares;
};
// The mean and the sum of the squared deviations from it of a group of elements. join_equal() computes them for the union of two groups of
// equal size, and join_four() adds four elements to a group of `count` elements (Chan, Golub, LeVeque, "Updating Formulae and a Pairwise
// Algorithm for Computing Sample Variances", 1979).
__device__ __forceinline__ Sums join_equal(const Sums& a, const Sums& b, float count_of_each) {
  const float apart = b.mean - a.mean;
  return {0.5f * (a.mean + b.mean), a.squares + b.squares + apart * apart * (0.5f * count_of_each)};
}
__device__ __forceinline__ void join_four(Sums& sums, int count, const float2& left, const float2& right) {
  const float mean = 0.25f * ((left.x + left.y) + (right.x + right.y));
  const float a = left.x - mean, b = left.y - mean, c = right.x - mean, d = right.y - mean;
  const float squares = (a * a + b * b) + (c * c + d * d);
  if (count == 0) {
    sums = {mean, squares};
    return;
  }
  const float apart = mean - sums.mean;
  const float share = 4.0f / static_cast<float>(count + 4);
  sums.mean += apart * share;
  sums.squares += squares + apart * apart * (share * static_cast<float>(count));
}

// The coefficients with which the elements of a row are normalized: x_hat = scale x + shift.
struct Norm {
  float scale, shift;
};

// The intermediate results for the two rows of the finished tile of which this thread holds elements.
struct Rows {
  const float4* factors;  // an array whose elements are gain and beta of two adjacent columns
  Sums sums[2];
  uint64_t seen[2][2];  // for each row, the sums of two blocks as they were last read
  Norm norms[2];
};

template <typename T>
__device__ __forceinline__ uint32_t add_pair(uint32_t a, uint32_t b) {
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  const Pair sum = __hadd2(*reinterpret_cast<const Pair*>(&a), *reinterpret_cast<const Pair*>(&b));
  return *reinterpret_cast<const uint32_t*>(&sum);
}

// Runs one of the steps 0 to 15 for a finished tile, which adds the residual to 16 columns and includes these columns in the sums of their
// rows.
template <typename T>
__device__ __forceinline__ void add_step(const NormArgs& args, const Warp& warp, Waiting& waiting, Rows& rows,
                                         int number) {
  const int part = number / kStepsOfPart, step = number % kStepsOfPart;
  const Place place = place_of(warp, part);
  if (step == 0) {
    tma::wait(place.addend, place.phase);
    __syncwarp();
  }
  uint32_t addends[4];
  load_matrices(place_in_box(warp, place.box, step), addends);
  float2 x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t& sums = waiting.sums[4 * number + i];
    sums = add_pair<T>(sums, addends[i]);
    x[i] = cuda::widen<T>(sums);
  }
  join_four(rows.sums[0], 4 * number, x[0], x[2]);
  join_four(rows.sums[1], 4 * number, x[1], x[3]);
  if (step + 1 < kStepsOfPart) return;
  __syncwarp();
  if (part < 2) fetch_addend(args.layer, warp, waiting.tile, part + 2);
}

// Returns the address at which the sums of this thread's first row over the columns of thread block number `block` are exchanged. The sums
// of the thread's second row are eight elements later.
__device__ __forceinline__ uint64_t* sums_of(const NormArgs& args, const Warp& warp, const Tile& tile,
                                             int block) {
  return args.sums + (static_cast<int64_t>(tile.row) * args.layer.tiles_across + block * kRows) +
         kBoxRows * warp.number + warp.lane / 4;
}
__device__ __forceinline__ uint64_t load_sums(const uint64_t* from) {
  uint64_t sums;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(sums) : "l"(from) : "memory");
  return sums;
}

// Writes the sums of the rows to device memory, where the other blocks read them. Four threads have the elements of the same two rows; the
// first of them writes the sums of one row, and the second those of the other row.
__device__ __forceinline__ void publish_sums(const NormArgs& args, const Warp& warp, const Tile& tile,
                                             Rows& rows) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    Sums& sums = rows.sums[row];
#pragma unroll
    for (int apart = 1; apart <= 2; apart *= 2) {
      const Sums other{__shfl_xor_sync(~0u, sums.mean, apart), __shfl_xor_sync(~0u, sums.squares, apart)};
      sums = join_equal(sums, other, static_cast<float>(kColumns / 4 * apart));
    }
    if (warp.lane % 4 != row) continue;
    // The exchanged number never equals kNoSums, whose bits are all 1: a sum of squares is not negative, and the sign bit of a NaN is
    // cleared.
    const uint64_t both =
        uint64_t{__float_as_uint(sums.squares) & 0x7fffffffu} << 32 | __float_as_uint(sums.mean);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(
                     sums_of(args, warp, tile, tile.column / kColumns) + 8 * row),
                 "l"(both)
                 : "memory");
  }
}

// Reads the sums that the blocks have written, once and without waiting. Thread i of the four threads of a row reads the sums of blocks i
// and i + 4.
__device__ __forceinline__ void try_load_sums(const NormArgs& args, const Warp& warp, const Tile& tile,
                                              Rows& rows) {
#pragma unroll
  for (int block_index = 0; block_index < 2; ++block_index) {
    const int block = warp.lane % 4 + 4 * block_index;
    if (block >= args.layer.tiles_across) continue;
#pragma unroll
    for (int row = 0; row < 2; ++row)
      rows.seen[row][block_index] = load_sums(sums_of(args, warp, tile, block) + 8 * row);
  }
}
__device__ __forceinline__ void wait_for_sums(const NormArgs& args, const Warp& warp, const Tile& tile,
                                              Rows& rows) {
#pragma unroll
  for (int block_index = 0; block_index < 2; ++block_index) {
    const int block = warp.lane % 4 + 4 * block_index;
    if (block >= args.layer.tiles_across) continue;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      while (rows.seen[row][block_index] == kNoSums)
        rows.seen[row][block_index] = load_sums(sums_of(args, warp, tile, block) + 8 * row);
    }
  }
  __syncwarp();
}
// Returns the sum of x over the four threads of a row, with the same bits in all four.
__device__ __forceinline__ float sum_of_quad(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

__device__ __forceinline__ void take_norms(const NormArgs& args, const Warp& warp, const Tile& tile,
                                           Rows& rows) {
  wait_for_sums(args, warp, tile, rows);
  const float share = 1.0f / static_cast<float>(args.layer.tiles_across);
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    Sums sums[2];
    bool is_valid[2];
#pragma unroll
    for (int block_index = 0; block_index < 2; ++block_index) {
      is_valid[block_index] = warp.lane % 4 + 4 * block_index < args.layer.tiles_across;
      const uint64_t both = is_valid[block_index] ? rows.seen[row][block_index] : 0;
      sums[block_index] = {__uint_as_float(static_cast<uint32_t>(both)),
                           __uint_as_float(static_cast<uint32_t>(both >> 32))};
    }
    const float mean = share * sum_of_quad(sums[0].mean + sums[1].mean);
    float squares = sums[0].squares + sums[1].squares;
#pragma unroll
    for (int block_index = 0; block_index < 2; ++block_index) {
      const float apart = is_valid[block_index] ? sums[block_index].mean - mean : 0.0f;
      squares += apart * apart * static_cast<float>(kColumns);
    }
    const float variance = sum_of_quad(squares) * (share / static_cast<float>(kColumns));
    const float rstd = rsqrtf(variance + args.eps);
    rows.norms[row] = {rstd, -mean * rstd};
  }
}

// Runs one of the steps 16 to 31 for a finished tile, which normalizes 16 columns and writes them to a box, a buffer in shared memory. In
// the last step of a part, starts to copy the box to y.
template <typename T>
__device__ __forceinline__ void norm_step(const NormArgs& args, const Warp& warp, const Waiting& waiting,
                                          const Rows& rows, int number) {
  const int part = number / kStepsOfPart, step = number % kStepsOfPart;
  const Place place = place_of(warp, part);
  if (step == 0) {
    if (warp.lane == 0) tma::wait_until_read<1>();
    __syncwarp();
  }
  uint32_t y[4];
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    // gain and beta of two adjacent columns
    const float4 factors = rows.factors[8 * number + 4 * side + warp.lane % 4];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float2 x = cuda::widen<T>(waiting.sums[4 * number + 2 * side + row]);
      const Norm& norm = rows.norms[row];
      y[2 * side + row] = cuda::narrow_pair<T>((x.x * norm.scale + norm.shift) * factors.x + factors.y,
                                               (x.y * norm.scale + norm.shift) * factors.z + factors.w);
    }
  }
  store_matrices(place_in_box(warp, place.box, step), y);
  if (step + 1 == kStepsOfPart) send_box(args.layer, warp, waiting.tile, part, place.box);
}

// Runs one of the kSteps steps for a finished tile. The first half of the steps add the residual, and the second half normalize and write
// the rows. Before the first step of the second half, the sums of the rows are exchanged with the other blocks.
template <typename T>
__device__ __forceinline__ void take_step(const NormArgs& args, const Warp& warp, Waiting& waiting,
                                          Rows& rows, int step) {
  if (step == kAddSteps) take_norms(args, warp, waiting.tile, rows);
  if (step < kAddSteps) {
    add_step<T>(args, warp, waiting, rows, step);
  } else {
    norm_step<T>(args, warp, waiting, rows, step - kAddSteps);
  }
  if (step + 1 == kAddSteps) publish_sums(args, warp, waiting.tile, rows);
}

// Computes the tiles of a thread block. During each stage of the next tile's products, kStepsOfStage steps (of 16 columns each) of the
// finished tile run. After the sums of the rows were written, kStagesApart stages pass without steps, so that the other blocks can write
// their sums.
template <typename T, int kStepsOfStage>
__device__ void consume(const NormArgs& args, const Warp& warp, Ring ring, const float4* factors) {
  constexpr int kHidden = stages_for(kStepsOfStage);
  constexpr int kNormStage = (kHidden + kStagesApart) / 2;
  // The step of a finished tile in which the load of the addend for part 0 of the next tile starts. This load overwrites the box, a buffer
  // in shared memory, from which parts 0 and 2 of the finished tile are copied to y. At this step these copies have nearly ended, so the
  // warp hardly waits for them.
  constexpr int kFetchStep = kSteps - 3;
  float acc[128];
  Waiting waiting = {};
  Rows rows = {.factors = factors, .sums = {}, .seen = {}, .norms = {}};
  for (int number = static_cast<int>(blockIdx.x); number < args.layer.tiles_down * args.layer.tiles_across;
       number += static_cast<int>(gridDim.x)) {
    const Tile tile = tile_of(args.layer, number);
#pragma unroll
    for (int stage = 0; stage < kHidden; ++stage) {
      multiply_stage<T>(warp, ring, acc, stage > 0);
      if (stage + 1 == kNormStage && waiting.is_valid) try_load_sums(args, warp, waiting.tile, rows);
#pragma unroll
      for (int i = 0; i < kStepsOfStage; ++i) {
        const bool norms = stage >= kNormStage;
        const int step =
            norms ? kAddSteps + (stage - kNormStage) * kStepsOfStage + i : stage * kStepsOfStage + i;
        if (step >= (norms ? kSteps : kAddSteps)) continue;
        if (waiting.is_valid) take_step<T>(args, warp, waiting, rows, step);
        if (step == kFetchStep) fetch_addend(args.layer, warp, tile, 0);
      }
    }
    for (int stage = kHidden; stage < args.layer.stages; ++stage) multiply_stage<T>(warp, ring, acc, true);
    fetch_addend(args.layer, warp, tile, 1);
    TileBiases biases;
    biases.load<T>(args.layer, warp, tile);
    end_products(warp, ring, acc);
    biases.add_to(acc);
    take<T>(acc, waiting);
    waiting.tile = tile;
    waiting.is_valid = true;
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step == kAddSteps) try_load_sums(args, warp, waiting.tile, rows);
    take_step<T>(args, warp, waiting, rows, step);
  }
  if (warp.lane == 0) tma::wait_until_stored();
}

template <typename T, int kStepsOfStage>
__global__ void __launch_bounds__(kThreads, 1)
    linear_norm_cuda_wgmma_kernel(const __grid_constant__ NormArgs args) {
  extern __shared__ __align__(1024) std::byte shared[];
  const Ring ring{.base = tma::shared_address(shared)};
  if (threadIdx.x == 0) make_barriers(ring);
  float2* const factors = reinterpret_cast<float2*>(shared + kFactorsAt);
  if (threadIdx.x < kColumns) {
    const int column =
        tile_of(args.layer, static_cast<int>(blockIdx.x)).column + static_cast<int>(threadIdx.x);
    factors[threadIdx.x] = {args.gain.at(column), args.beta.data != nullptr ? args.beta.at(column) : 0.0f};
  }
  __syncthreads();
  divide_work(args.layer, ring, [&](const Warp& warp) {
    consume<T, kStepsOfStage>(args, warp, ring, reinterpret_cast<const float4*>(factors));
  });
}

template <typename T, int kStepsOfStage>
void launch(const NormArgs& args, CudaStream stream) {
  const auto kernel = linear_norm_cuda_wgmma_kernel<T, kStepsOfStage>;
  PLIMSOLL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kNormSharedBytes));
  int device = 0, multiprocessors = 0;
  PLIMSOLL_CUDA(cudaGetDevice(&device));
  PLIMSOLL_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const int across = args.layer.tiles_across;
  const int blocks = std::min(multiprocessors / across, args.layer.tiles_down) * across;
  const int64_t sums = int64_t{args.layer.tiles_down} * across * kRows;
  PLIMSOLL_CUDA(cudaMemsetAsync(args.sums, 0xff, static_cast<size_t>(sums) * sizeof *args.sums, stream));
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kNormSharedBytes;
  config.stream = stream;
  config.attrs = &together;
  config.numAttrs = 1;
  PLIMSOLL_CUDA(cudaLaunchKernelEx(&config, kernel, args));
  PLIMSOLL_CHECK_LAUNCH("linear_norm_cuda_wgmma");
}

template <typename T>
void launch_for(const NormArgs& args, CudaStream stream) {
  if (args.layer.stages >= stages_for(1)) return launch<T, 1>(args, stream);
  if (args.layer.stages >= stages_for(3)) return launch<T, 3>(args, stream);
  static_assert(stages_for(4) <= kLinearLeastTerms / kStageTerms);
  launch<T, 4>(args, stream);
}

void check_floats(const ConstView& view, DType dtype, const char* what) {
  PLIMSOLL_CHECK(view && (view.dtype == DType::kF32 || view.dtype == dtype),
                 "{} must be f32 or have the type of the matrix product, but is {} and the product is {}",
                 what, dtype_name(view.dtype), dtype_name(dtype));
}

}  // namespace

void linear_norm_cuda_wgmma(const LinearProblem& problem, const LinearNormArgs& operands, CudaStream stream) {
  PLIMSOLL_CHECK(linear_norm_sizes_fit(problem),
                 "linear_norm_cuda_wgmma does not support the matrix product [{}, {}] x [{}, {}]^T on sm_{} "
                 "(linear_norm_sizes_fit())",
                 problem.rows, problem.terms, problem.columns, problem.terms, problem.sm);
  const DType dtype = problem.dtype;
  PLIMSOLL_CHECK(operands.bias && operands.residual, "linear_norm_cuda_wgmma needs a bias and a residual");
  const int64_t sums_bytes = linear_norm_sums_bytes(problem);
  PLIMSOLL_CHECK(static_cast<int64_t>(operands.scratch.size()) >= sums_bytes,
                 "linear_norm_cuda_wgmma needs {} bytes of scratch memory, but has {}", sums_bytes,
                 operands.scratch.size());
  check_floats(operands.gain, dtype, "the gain");
  if (operands.beta) check_floats(operands.beta, dtype, "the beta");
  const MatmulArgs product{
      .a = operands.x, .b = operands.w, .bias = operands.bias, .c = operands.y, .addend = operands.residual};
  Args layer = args_of(problem, product);
  layer.prefetches_addend = true;
  layer.addend_parts = tensor_map(operands.residual.data, dtype, problem.rows, problem.columns, kRows);
  const NormArgs args{.layer = layer,
                      .gain = {operands.gain.data, operands.gain.dtype},
                      .beta = {operands.beta.data, operands.beta.dtype},
                      .eps = static_cast<float>(operands.eps),
                      .sums = reinterpret_cast<uint64_t*>(operands.scratch.data())};
  dtype == DType::kBF16 ? launch_for<__nv_bfloat16>(args, stream) : launch_for<__half>(args, stream);
}

}  // namespace plimsoll
