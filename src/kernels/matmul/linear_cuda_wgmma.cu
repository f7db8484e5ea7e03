// Linear layers on Hopper. A block per multiprocessor goes over tiles of 128 rows and 256 columns of y; one
// thread of it brings 64 columns of x and w at a time by TMA into a ring of stages, and two warpgroups
// multiply them, 64 rows each. A finished tile, rounded to 16 bits, waits in registers: a quarter of its
// columns goes out to memory while the next tile's products run, for every four stages of these. An
// activation and the bias before it are on that way; a bias alone is added before the tile is rounded, and
// its numbers come while the tile's last products run.
#include <algorithm>

#include "base/check.h"
#include "device/cuda/error.h"
#include "kernels/element_wise/cuda/gelu.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/matmul/linear_cuda_wgmma.h"
#include "kernels/matmul/tensor_map.h"
#include "kernels/matmul/tma.cuh"
#include "kernels/matmul/wgmma_64x256.cuh"

namespace plimsoll {
namespace {

constexpr int kRows = static_cast<int>(kLinearTileRows), kColumns = static_cast<int>(kLinearTileColumns);
constexpr int kStageTerms = 64;
constexpr int kStagesOfPart = static_cast<int>(kLinearTerms) / kStageTerms;
constexpr int kParts = 4;  // of a waiting tile, 64 columns each
constexpr int kStages = 4;
constexpr uint32_t kRowBytes = kStageTerms * 2;
constexpr uint32_t kStageBytes = (kRows + kColumns) * kRowBytes;
constexpr int kConsumerWarps = 8;
constexpr int kThreads = 3 * wgmma::kWarpgroup;

enum class Epilogue : uint8_t { kBias, kBiasGelu };
constexpr int kBoxRows = 16;  // of y: a warp's
constexpr uint32_t kBoxBytes = kBoxRows * kRowBytes;
// Stages; two boxes of each warp, one being written and one on its way out; two barriers of each stage.
constexpr uint32_t kBoxesAt = kStages * kStageBytes;
constexpr uint32_t kBarriersAt = kBoxesAt + kConsumerWarps * 2 * kBoxBytes;
constexpr uint32_t kSharedBytes = kBarriersAt + 2 * 8 * kStages;

struct Args {
  CUtensorMap x, w, y;
  cuda::AnyFloats bias;
  int tiles_down, tiles_across, stages;  // of a tile's terms
};

// A stage of the ring, as each of its users counts on its own.
struct Ring {
  uint32_t base;
  int stage = 0;
  uint32_t phase = 0;

  __device__ uint32_t x() const { return base + static_cast<uint32_t>(stage) * kStageBytes; }
  __device__ uint32_t w() const { return x() + kRows * kRowBytes; }
  __device__ uint32_t full() const { return full(stage); }
  __device__ uint32_t full(int s) const { return base + kBarriersAt + 16 * static_cast<uint32_t>(s); }
  __device__ uint32_t empty(int s) const { return full(s) + 8; }
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    phase ^= 1;
  }
};

// Neighbours in a row of tiles share x, and w stays in the L2 cache.
struct Tile {
  int row, column;
};
__device__ Tile tile_of(const Args& args, int number) {
  return {number / args.tiles_across * kRows, number % args.tiles_across * kColumns};
}

__device__ void produce(const Args& args, Ring ring) {
  ring.phase = 1;
  for (int number = static_cast<int>(blockIdx.x); number < args.tiles_down * args.tiles_across;
       number += static_cast<int>(gridDim.x)) {
    const Tile tile = tile_of(args, number);
    for (int stage = 0; stage < args.stages; ++stage) {
      tma::wait(ring.empty(ring.stage), ring.phase);
      tma::arrive_and_expect(ring.full(), kStageBytes);
      tma::load(ring.x(), &args.x, ring.full(), stage * kStageTerms, tile.row);
      tma::load(ring.w(), &args.w, ring.full(), stage * kStageTerms, tile.column);
      ring.advance();
    }
  }
}

// What a thread holds of a finished tile and where that goes. The sums are as wgmma_64x256.cuh says, two
// columns in a word.
struct Waiting {
  uint32_t sums[64];
  Tile tile;
  bool is_there = false;
};

template <typename T>
__device__ __forceinline__ void take(const float (&acc)[128], Waiting& waiting) {
#pragma unroll
  for (int i = 0; i < 64; ++i) waiting.sums[i] = cuda::narrow_pair<T>(acc[2 * i], acc[2 * i + 1]);
}

struct Warp {
  int number = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t boxes;  // its two
};

// Those of a thread's columns of a whole tile, two for each four of its sums.
struct TileBiases {
  float pairs[32][2];

  template <typename T>
  __device__ __forceinline__ void load(const Args& args, const Warp& warp, const Tile& tile) {
    const int column = tile.column + 2 * (warp.lane % 4);
    if (args.bias.dtype == DType::kF32) {
      load_as<float>(args.bias.data, column);
    } else {
      load_as<T>(args.bias.data, column);
    }
  }
  __device__ __forceinline__ void add_to(float (&acc)[128]) const {
#pragma unroll
    for (int i = 0; i < 128; ++i) acc[i] += pairs[i / 4][i % 2];
  }

 private:
  template <typename B>
  __device__ __forceinline__ void load_as(const void* bias, int column) {
#pragma unroll
    for (int j = 0; j < 32; ++j)
      cuda::load_floats<B, 2>(static_cast<const B*>(bias) + column + 8 * j, pairs[j]);
  }
};

struct Biases {
  float left[2], right[2];
};
// Of the 16 columns `step` of a part, this thread's: in the left and in the right eight. None where the tile
// has its biases.
template <Epilogue kEpilogue>
__device__ __forceinline__ Biases biases_of(const Args& args, const Warp& warp, const Tile& tile, int part,
                                            int step) {
  Biases biases{};
  if constexpr (kEpilogue == Epilogue::kBias) return biases;
  const int column = tile.column + 64 * part + 16 * step + 2 * (warp.lane % 4);
  args.bias.load<2>(column, biases.left);
  args.bias.load<2>(column + 8, biases.right);
  return biases;
}

template <typename T, Epilogue kEpilogue>
__device__ __forceinline__ uint32_t finish(uint32_t sums, const float (&bias)[2]) {
  if constexpr (kEpilogue == Epilogue::kBias) return sums;
  const float2 x = cuda::widen<T>(sums);
  using Gelu = cuda::ErfGeluOfRounded<T>;
  return cuda::narrow_pair<T>(Gelu::value(x.x + bias[0]), Gelu::value(x.y + bias[1]));
}

// 16 columns of a part (`sums`: its 16 words) go to the box; the last of four steps sends it off.
template <typename T, Epilogue kEpilogue>
__device__ __forceinline__ void put_out(const Args& args, const Warp& warp, const Tile& tile,
                                        const uint32_t* sums, int part, int step, const Biases& biases) {
  const uint32_t box = warp.boxes + static_cast<uint32_t>(part % 2) * kBoxBytes;
  if (step == 0) {
    if (warp.lane == 0) tma::wait_until_read<1>();
    __syncwarp();
  }
  uint32_t y[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    y[i] = finish<T, kEpilogue>(sums[4 * step + i], i < 2 ? biases.left : biases.right);
  const auto lane = static_cast<uint32_t>(warp.lane);
  const uint32_t chunk = 2 * static_cast<uint32_t>(step) + lane / 16;
  const uint32_t to = box + lane % 16 * kRowBytes + ((chunk ^ lane % 8) << 4);
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(y[0]),
               "r"(y[1]), "r"(y[2]), "r"(y[3])
               : "memory");
  if (step < 3) return;
  wgmma::show_to_products();
  __syncwarp();
  if (warp.lane == 0) tma::store(&args.y, box, tile.column + 64 * part, tile.row + kBoxRows * warp.number);
}

template <typename T, Epilogue kEpilogue>
__device__ __forceinline__ void put_out_part(const Args& args, const Warp& warp, const Tile& tile,
                                             const uint32_t* sums, int part) {
#pragma unroll
  for (int step = 0; step < 4; ++step)
    put_out<T, kEpilogue>(args, warp, tile, sums, part, step,
                          biases_of<kEpilogue>(args, warp, tile, part, step));
}

// Products of four stages. While they run, a part of the waiting tile is put out, if there is one.
template <typename T, Epilogue kEpilogue>
__device__ __forceinline__ void multiply_part(const Args& args, const Warp& warp, Ring& ring,
                                              float (&acc)[128], int& held, bool adds, const Tile& tile,
                                              const uint32_t* sums, int part, bool puts_out) {
  constexpr DType kType = std::is_same_v<T, __nv_bfloat16> ? DType::kBF16 : DType::kF16;
#pragma unroll
  for (int step = 0; step < kStagesOfPart; ++step) {
    Biases biases{};
    if (puts_out) biases = biases_of<kEpilogue>(args, warp, tile, part, step);
    tma::wait(ring.full(), ring.phase);
    const uint64_t x = wgmma::descriptor(ring.x() + static_cast<uint32_t>(warp.number / 4) * 64 * kRowBytes);
    const uint64_t w = wgmma::descriptor(ring.w());
    wgmma::begin_products();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      wgmma::multiply_64x256<kType>(acc, x + 2 * i, w + 2 * i, i > 0 || step > 0 || adds ? 1 : 0);
    wgmma::close_products();
    wgmma::wait_for_products<1>();
    if (held >= 0 && warp.lane == 0) tma::arrive(ring.empty(held));
    held = ring.stage;
    ring.advance();
    if (puts_out) put_out<T, kEpilogue>(args, warp, tile, sums, part, step, biases);
  }
}

// kHidden: how many parts of a tile find products to hide behind.
template <typename T, Epilogue kEpilogue, int kHidden>
__device__ void consume(const Args& args, const Warp& warp, Ring ring) {
  float acc[128];
  Waiting waiting = {};
  for (int number = static_cast<int>(blockIdx.x); number < args.tiles_down * args.tiles_across;
       number += static_cast<int>(gridDim.x)) {
    const Tile tile = tile_of(args, number);
    int held = -1;  // the stage that products may still read
#pragma unroll
    for (int part = 0; part < kHidden; ++part) {
      multiply_part<T, kEpilogue>(args, warp, ring, acc, held, part > 0, waiting.tile,
                                  waiting.sums + 16 * part, part, waiting.is_there);
    }
    for (int stage = kHidden * kStagesOfPart; stage < args.stages; stage += kStagesOfPart)
      multiply_part<T, kEpilogue>(args, warp, ring, acc, held, true, waiting.tile, waiting.sums, 0, false);
    if (waiting.is_there) {
#pragma unroll
      for (int part = kHidden; part < kParts; ++part)
        put_out_part<T, kEpilogue>(args, warp, waiting.tile, waiting.sums + 16 * part, part);
    }
    TileBiases biases;
    if constexpr (kEpilogue == Epilogue::kBias) biases.load<T>(args, warp, tile);
    wgmma::wait_for_products<0>();
#pragma unroll
    for (float& sum : acc) asm volatile("" : "+f"(sum)::"memory");
    if (warp.lane == 0) tma::arrive(ring.empty(held));
    if constexpr (kEpilogue == Epilogue::kBias) biases.add_to(acc);
    take<T>(acc, waiting);
    waiting.tile = tile;
    waiting.is_there = true;
  }
  if (waiting.is_there) {
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      put_out_part<T, kEpilogue>(args, warp, waiting.tile, waiting.sums + 16 * part, part);
  }
  if (warp.lane == 0) tma::wait_until_stored();
}

template <typename T, Epilogue kEpilogue, int kHidden>
__global__ void __launch_bounds__(kThreads, 1) linear_cuda_wgmma_kernel(const __grid_constant__ Args args) {
  extern __shared__ __align__(1024) std::byte shared[];
  const Ring ring{.base = tma::shared_address(shared)};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      tma::make_barrier(ring.full(stage), 1);
      tma::make_barrier(ring.empty(stage), kConsumerWarps);
    }
    tma::show_barriers();
  }
  __syncthreads();
  // The producer's registers go to those who hold accumulators: 24 + 2 x 240 of the 504 for three warpgroups.
  if (threadIdx.x >= 2 * wgmma::kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 2 * wgmma::kWarpgroup) produce(args, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    Warp warp;
    warp.boxes = ring.base + kBoxesAt + static_cast<uint32_t>(warp.number) * 2 * kBoxBytes;
    consume<T, kEpilogue, kHidden>(args, warp, ring);
  }
}

template <typename T, Epilogue kEpilogue, int kHidden>
void launch(const Args& args, CudaStream stream) {
  const auto kernel = linear_cuda_wgmma_kernel<T, kEpilogue, kHidden>;
  PLIMSOLL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  int device = 0, multiprocessors = 0;
  PLIMSOLL_CUDA(cudaGetDevice(&device));
  PLIMSOLL_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const int blocks = std::min(multiprocessors, args.tiles_down * args.tiles_across);
  kernel<<<static_cast<unsigned>(blocks), kThreads, kSharedBytes, stream>>>(args);
  PLIMSOLL_CHECK_LAUNCH("linear_cuda_wgmma");
}

template <Epilogue kEpilogue>
void run(const LinearProblem& problem, const LinearOperands& operands, CudaStream stream) {
  PLIMSOLL_CHECK(linear_sizes_fit(problem), "[{}, {}] x [{}, {}]^T on sm_{}", problem.rows, problem.terms,
                 problem.columns, problem.terms, problem.sm);
  const DType dtype = problem.dtype;
  PLIMSOLL_CHECK(operands.bias_N.dtype == DType::kF32 || operands.bias_N.dtype == dtype,
                 "a bias in {} beside {}", dtype_name(operands.bias_N.dtype), dtype_name(dtype));
  const Args args{.x = tensor_map(operands.x_TK.data, dtype, problem.rows, problem.terms, kRows),
                  .w = tensor_map(operands.w_NK.data, dtype, problem.columns, problem.terms, kColumns),
                  .y = tensor_map(operands.y_TN.data, dtype, problem.rows, problem.columns, kBoxRows),
                  .bias = {operands.bias_N.data, operands.bias_N.dtype},
                  .tiles_down = static_cast<int>((problem.rows + kRows - 1) / kRows),
                  .tiles_across = static_cast<int>(problem.columns / kColumns),
                  .stages = static_cast<int>(problem.terms / kStageTerms)};
  const bool hides_all = args.stages >= kParts * kStagesOfPart;
  if (dtype == DType::kBF16) {
    hides_all ? launch<__nv_bfloat16, kEpilogue, 4>(args, stream)
              : launch<__nv_bfloat16, kEpilogue, 3>(args, stream);
  } else {
    hides_all ? launch<__half, kEpilogue, 4>(args, stream) : launch<__half, kEpilogue, 3>(args, stream);
  }
}

}  // namespace

void linear_gelu_cuda_wgmma(const LinearProblem& problem, const LinearOperands& operands, CudaStream stream) {
  run<Epilogue::kBiasGelu>(problem, operands, stream);
}

void linear_bias_cuda_wgmma(const LinearProblem& problem, const LinearOperands& operands, CudaStream stream) {
  run<Epilogue::kBias>(problem, operands, stream);
}

}  // namespace plimsoll
