// Linear layers on Hopper. One thread block per multiprocessor loops over tiles of 128 rows and 256 columns of y. One of its threads loads
// 64 columns of x and w at a time by TMA into a ring of stages, and two warpgroups multiply them, 64 rows each. A finished tile, rounded to
// 16 bits, stays in registers ("waits") while the products of the next tile run; a quarter of its columns, called a part, is written to
// memory during every four stages of these products. The activation and its bias are applied when a part is written. A bias without
// activation is added before the tile is rounded, and is loaded while the last products of the tile run. An addend is also added when a
// part is written: two stages earlier, TMA loads the addend of the part into the buffer ("box") from which the part will be written.
#include <algorithm>

#include "base/check.h"
#include "device/cuda/cuda_error.h"
#include "kernels/element_wise/cuda/gelu.cuh"
#include "kernels/matmul/linear_cuda_wgmma.h"
#include "kernels/matmul/linear_tiles.cuh"

namespace plimsoll {
namespace {

using namespace linear;

enum class Epilogue : uint8_t { kNone, kBias, kAddend, kBiasGelu };

struct Biases {
  float left[2], right[2];
};
// Returns this thread's biases for the 16 columns of step number `step` of a part (64 columns of a tile): two biases for its left and two
// for its right eight columns. Returns zeros unless the bias is added after the tile was rounded, as with GELU.
template <Epilogue kEpilogue>
__device__ __forceinline__ Biases biases_of(const Args& args, const Warp& warp, const Tile& tile, int part,
                                            int step) {
  Biases biases{};
  if constexpr (kEpilogue != Epilogue::kBiasGelu) return biases;
  const int column = tile.column + 64 * part + 16 * step + 2 * (warp.lane % 4);
  args.bias.load<2>(column, biases.left);
  args.bias.load<2>(column + 8, biases.right);
  return biases;
}

template <typename T, Epilogue kEpilogue>
__device__ __forceinline__ uint32_t finish(uint32_t sums, const float (&bias)[2], uint32_t addends) {
  if constexpr (kEpilogue == Epilogue::kNone || kEpilogue == Epilogue::kBias) return sums;
  const float2 x = cuda::widen<T>(sums);
  if constexpr (kEpilogue == Epilogue::kAddend) {
    const float2 addend = cuda::widen<T>(addends);
    return cuda::narrow_pair<T>(x.x + addend.x, x.y + addend.y);
  } else {
    using Gelu = cuda::ErfGeluOfRounded<T>;
    return cuda::narrow_pair<T>(Gelu::value(x.x + bias[0]), Gelu::value(x.y + bias[1]));
  }
}

// Finishes 16 columns of a part (a quarter of a tile's columns), that is, adds the addend or applies bias and GELU, and writes them to the
// part's box, a buffer in shared memory. `sums` contains the 16 words of the part. The box already contains the addend, if there is one. In
// the last of the four steps of a part, starts to copy the box to y.
template <typename T, Epilogue kEpilogue>
__device__ __forceinline__ void store_16_columns(const Args& args, const Warp& warp, const Tile& tile,
                                                 const uint32_t* sums, int part, int step,
                                                 const Biases& biases, const Place& place) {
  constexpr bool kAdds = kEpilogue == Epilogue::kAddend;
  if (step == 0) {
    if (kAdds) {
      tma::wait(place.addend, place.phase);
    } else if (warp.lane == 0) {
      tma::wait_until_read<1>();
    }
    __syncwarp();
  }
  const uint32_t to = place_in_box(warp, place.box, step);
  uint32_t addends[4] = {};
  if constexpr (kAdds) load_matrices(to, addends);
  uint32_t y[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    y[i] = finish<T, kEpilogue>(sums[4 * step + i], i < 2 ? biases.left : biases.right, addends[i]);
  store_matrices(to, y);
  if (step == 3) send_box(args, warp, tile, part, place.box);
}

template <typename T, Epilogue kEpilogue>
__device__ __forceinline__ void store_part(const Args& args, const Warp& warp, const Tile& tile,
                                           const uint32_t* sums, int part, const Place& place) {
#pragma unroll
  for (int step = 0; step < 4; ++step)
    store_16_columns<T, kEpilogue>(args, warp, tile, sums, part, step,
                                   biases_of<kEpilogue>(args, warp, tile, part, step), place);
}

// Multiplies four stages of x and w (64 columns each). If a finished tile waits to be written, one of its four parts is written at the same
// time. After two stages, calls fetch(), which must start to load the addend of the part that is written next. By then, the copy of the
// previous part from its box in shared memory to y has probably ended.
template <typename T, Epilogue kEpilogue, typename Fetch>
__device__ __forceinline__ void multiply_part(const Args& args, const Warp& warp, Ring& ring,
                                              float (&acc)[128], bool adds, const Tile& tile,
                                              const uint32_t* sums, int part, bool puts_out,
                                              const Fetch& fetch) {
#pragma unroll
  for (int step = 0; step < kStagesOfPart; ++step) {
    Biases biases{};
    if (puts_out) biases = biases_of<kEpilogue>(args, warp, tile, part, step);
    multiply_stage<T>(warp, ring, acc, step > 0 || adds);
    if (puts_out)
      store_16_columns<T, kEpilogue>(args, warp, tile, sums, part, step, biases, place_of(warp, part));
    if (step == 1) fetch();
  }
}

// Writes the last tile, after which no products follow. The load of the addend of its first part (64 columns) was started earlier. The
// addends of the other three parts are loaded at once: one into the warp's other box in shared memory, and two into the shared memory of
// this warp's rows of x, which are no longer needed.
template <typename T, Epilogue kEpilogue>
__device__ void store_last_tile(const Args& args, const Warp& warp, const Ring& ring,
                                const Waiting& waiting) {
  Place places[kParts];
#pragma unroll
  for (int part = 0; part < kParts; ++part) places[part] = place_of(warp, part);
  if constexpr (kEpilogue == Epilogue::kAddend) {
#pragma unroll
    for (int part = 2; part < kParts; ++part) {
      places[part] = places[1];
      places[part].box = ring.base + static_cast<uint32_t>(part) * kStageBytes +
                         static_cast<uint32_t>(kBoxRows * warp.number) * kRowBytes;
    }
    asm volatile("bar.sync %0, %1;" ::"r"(1 + warp.number / 4), "n"(wgmma::kWarpgroup) : "memory");
    if (warp.lane == 0) {
      tma::wait_until_read<0>();
      tma::arrive_and_expect(places[1].addend, 3 * kBoxBytes);
      for (int part = 1; part < kParts; ++part) load_addend(args, warp, waiting.tile, part, places[part]);
    }
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part)
    store_part<T, kEpilogue>(args, warp, waiting.tile, waiting.sums + 16 * part, part, places[part]);
}

// Computes the tiles of a thread block. kHidden is the number of parts (64 columns each) of a finished tile, 0 to 4, that are written while
// the products of the next tile run; the other parts are written after these products.
template <typename T, Epilogue kEpilogue, int kHidden>
__device__ void consume(const Args& args, const Warp& warp, Ring ring) {
  constexpr bool kAdds = kEpilogue == Epilogue::kAddend;
  float acc[128];
  Waiting waiting = {};
  for (int number = static_cast<int>(blockIdx.x); number < args.tiles_down * args.tiles_across;
       number += static_cast<int>(gridDim.x)) {
    const Tile tile = tile_of(args, number);
#pragma unroll
    for (int part = 0; part < kHidden; ++part) {
      multiply_part<T, kEpilogue>(args, warp, ring, acc, part > 0, waiting.tile, waiting.sums + 16 * part,
                                  part, waiting.is_valid, [&] {
                                    if (!kAdds) return;
                                    if (part + 1 == kParts) {
                                      fetch_addend(args, warp, tile, 0);
                                    } else if (waiting.is_valid) {
                                      fetch_addend(args, warp, waiting.tile, part + 1);
                                    }
                                  });
    }
    for (int stage = kHidden * kStagesOfPart; stage < args.stages; stage += kStagesOfPart)
      multiply_part<T, kEpilogue>(args, warp, ring, acc, true, waiting.tile, waiting.sums, 0, false, [] {});
    if (kAdds && kHidden < kParts) fetch_addend(args, warp, tile, 0);
    if (waiting.is_valid) {
#pragma unroll
      for (int part = kHidden; part < kParts; ++part)
        store_part<T, kEpilogue>(args, warp, waiting.tile, waiting.sums + 16 * part, part,
                                 place_of(warp, part));
    }
    TileBiases biases;
    if constexpr (kEpilogue == Epilogue::kBias) biases.load<T>(args, warp, tile);
    end_products(warp, ring, acc);
    if constexpr (kEpilogue == Epilogue::kBias) biases.add_to(acc);
    take<T>(acc, waiting);
    waiting.tile = tile;
    waiting.is_valid = true;
  }
  if (waiting.is_valid) store_last_tile<T, kEpilogue>(args, warp, ring, waiting);
  if (warp.lane == 0) tma::wait_until_stored();
}

template <typename T, Epilogue kEpilogue, int kHidden>
__global__ void __launch_bounds__(kThreads, 1) linear_cuda_wgmma_kernel(const __grid_constant__ Args args) {
  extern __shared__ __align__(1024) std::byte shared[];
  const Ring ring{.base = tma::shared_address(shared)};
  if (threadIdx.x == 0) make_barriers(ring);
  __syncthreads();
  divide_work(args, ring, [&](const Warp& warp) { consume<T, kEpilogue, kHidden>(args, warp, ring); });
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
void run(const LinearProblem& problem, const MatmulArgs& operands, CudaStream stream) {
  PLIMSOLL_CHECK(linear_sizes_fit(problem),
                 "linear_cuda_wgmma does not support the matrix product [{}, {}] x [{}, {}]^T on sm_{} "
                 "(linear_sizes_fit())",
                 problem.rows, problem.terms, problem.columns, problem.terms, problem.sm);
  const Args args = args_of(problem, operands);
  const bool hides_all = args.stages >= kParts * kStagesOfPart;
  if (problem.dtype == DType::kBF16) {
    hides_all ? launch<__nv_bfloat16, kEpilogue, 4>(args, stream)
              : launch<__nv_bfloat16, kEpilogue, 3>(args, stream);
  } else {
    hides_all ? launch<__half, kEpilogue, 4>(args, stream) : launch<__half, kEpilogue, 3>(args, stream);
  }
}

}  // namespace

void linear_cuda_wgmma(const LinearProblem& problem, LinearActivation activation, const MatmulArgs& args,
                       CudaStream stream) {
  const bool has_gelu = activation == LinearActivation::kGelu;
  PLIMSOLL_CHECK(has_gelu ? args.bias && !args.addend : !args.bias || !args.addend,
                 "linear_cuda_wgmma: the matrix product {} x {} x {} {}", problem.rows, problem.columns,
                 problem.terms,
                 has_gelu ? "with GELU needs a bias and supports no addend"
                          : "does not support a bias together with an addend");
  if (has_gelu) return run<Epilogue::kBiasGelu>(problem, args, stream);
  if (args.bias) return run<Epilogue::kBias>(problem, args, stream);
  if (args.addend) return run<Epilogue::kAddend>(problem, args, stream);
  run<Epilogue::kNone>(problem, args, stream);
}

}  // namespace plimsoll
