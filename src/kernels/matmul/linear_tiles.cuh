// Code that the kernels of linear layers on Hopper share (linear_cuda_wgmma.cu, linear_norm_cuda_wgmma.cu): tiles of 128 rows and 256
// columns of y. One thread of a block loads the rows of x and w for a tile by TMA, 64 columns (a "stage") at a time, into a ring buffer of
// stages. A finished tile is written in four parts of 64 columns through "boxes", buffers in shared memory into which an addend can be
// loaded first. For sources that nvcc compiles for sm_90a.
#pragma once

#include <type_traits>

#include "base/check.h"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/tensor_map.h"
#include "kernels/matmul/tma.cuh"
#include "kernels/matmul/wgmma_64x256.cuh"

namespace plimsoll::linear {

inline constexpr int kRows = static_cast<int>(kLinearTileRows),
                     kColumns = static_cast<int>(kLinearTileColumns);
inline constexpr int kStageTerms = 64;
inline constexpr int kStagesOfPart = static_cast<int>(kLinearTerms) / kStageTerms;
inline constexpr int kParts = 4;  // number of parts of a finished tile, 64 columns each
inline constexpr uint32_t kStages = 4;
inline constexpr uint32_t kRowBytes = kStageTerms * 2;
inline constexpr uint32_t kStageBytes = (kRows + kColumns) * kRowBytes;
inline constexpr int kConsumerWarps = 8;
inline constexpr int kThreads = 3 * wgmma::kWarpgroup;
inline constexpr int kBoxRows = 16;  // number of rows of y per box, a buffer in shared memory
inline constexpr uint32_t kBoxBytes = kBoxRows * kRowBytes;
// The layout of shared memory: the stages; two boxes per warp; two barriers per stage; and one barrier per box, which signals that an
// addend has arrived.
inline constexpr uint32_t kBoxesAt = kStages * kStageBytes;
inline constexpr uint32_t kBarriersAt = kBoxesAt + kConsumerWarps * 2 * kBoxBytes;
inline constexpr uint32_t kAddendBarriersAt = kBarriersAt + 2 * 8 * kStages;
inline constexpr uint32_t kSharedBytes = kAddendBarriersAt + kConsumerWarps * 2 * 8;

// The arguments of a linear layer as kernel parameters.
struct Args {
  CUtensorMap x, w, addend, y;
  cuda::AnyFloats bias;
  // `stages` is the number of stages per tile: all terms divided by kStageTerms.
  int tiles_down, tiles_across, stages;
  // If true, the addend of a tile is prefetched into the L2 cache, one part at a time, while its first stages are loaded.
  bool prefetches_addend;
  CUtensorMap addend_parts;
};

// Converts the arguments of a linear layer to kernel parameters. Errors: kInternal for a bias whose type is neither fp32 nor that of the
// layer.
inline Args args_of(const LinearProblem& problem, const MatmulArgs& operands) {
  const DType dtype = problem.dtype;
  const ConstView bias = operands.bias;
  PLIMSOLL_CHECK(
      !bias || bias.dtype == DType::kF32 || bias.dtype == dtype,
      "the bias must be f32 or have the type of the matrix product, but is {} and the product is {}",
      dtype_name(bias.dtype), dtype_name(dtype));
  const auto of_boxes = [&](const void* data) {
    return tensor_map(data, dtype, problem.rows, problem.columns, kBoxRows);
  };
  return {.x = tensor_map(operands.a.data, dtype, problem.rows, problem.terms, kRows),
          .w = tensor_map(operands.b.data, dtype, problem.columns, problem.terms, kColumns),
          .addend = operands.addend ? of_boxes(operands.addend.data) : CUtensorMap{},
          .y = of_boxes(operands.c.data),
          .bias = {bias.data, bias.dtype},
          .tiles_down = static_cast<int>((problem.rows + kRows - 1) / kRows),
          .tiles_across = static_cast<int>(problem.columns / kColumns),
          .stages = static_cast<int>(problem.terms / kStageTerms),
          .prefetches_addend = false,
          .addend_parts = {}};
}

// A position in the ring buffer of stages, each of which contains 64 columns of x and w. The producer and each consumer warp have their own
// Ring. `met` is the number of stages that this producer or consumer has finished with.
struct Ring {
  uint32_t base;
  uint32_t met = 0;

  __device__ uint32_t x() const { return base + met % kStages * kStageBytes; }
  __device__ uint32_t w() const { return x() + kRows * kRowBytes; }
  __device__ uint32_t phase() const { return met / kStages % 2; }
  __device__ uint32_t full() const { return full(met); }
  __device__ uint32_t full(uint32_t s) const { return base + kBarriersAt + 16 * (s % kStages); }
  __device__ uint32_t empty(uint32_t s) const { return full(s) + 8; }
};

// The position of a tile in y. Adjacent blocks compute adjacent tiles of the same rows at the same time, so that they share x, and w stays
// in the L2 cache.
struct Tile {
  int row, column;
};
__device__ inline Tile tile_of(const Args& args, int number) {
  return {number / args.tiles_across * kRows, number % args.tiles_across * kColumns};
}

__device__ inline void produce(const Args& args, Ring ring) {
  for (int number = static_cast<int>(blockIdx.x); number < args.tiles_down * args.tiles_across;
       number += static_cast<int>(gridDim.x)) {
    const Tile tile = tile_of(args, number);
    for (int stage = 0; stage < args.stages; ++stage) {
      tma::wait(ring.empty(ring.met), ring.phase() ^ 1);
      tma::arrive_and_expect(ring.full(), kStageBytes);
      tma::load(ring.x(), &args.x, ring.full(), stage * kStageTerms, tile.row);
      tma::load(ring.w(), &args.w, ring.full(), stage * kStageTerms, tile.column);
      ++ring.met;
      if (args.prefetches_addend && stage < kParts)
        tma::prefetch(&args.addend_parts, tile.column + 64 * stage, tile.row);
    }
  }
}

struct Warp {
  int number = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t boxes = 0;    // address of the warp's two boxes in shared memory
  uint32_t addends = 0;  // address of the barriers of the two boxes
};

// The buffer in shared memory ("box") through which a part of a tile is written, the barrier that signals that an addend has arrived in it,
// and the phase of this barrier.
struct Place {
  uint32_t box, addend, phase;
};
__device__ __forceinline__ Place place_of(const Warp& warp, int part) {
  const auto number = static_cast<uint32_t>(part);
  return {warp.boxes + number % 2 * kBoxBytes, warp.addends + number % 2 * 8, number / 2};
}

// Starts to load the addend of a part of a tile into the part's box in shared memory. Only one thread of the warp calls it.
__device__ __forceinline__ void load_addend(const Args& args, const Warp& warp, const Tile& tile, int part,
                                            const Place& place) {
  tma::load(place.box, &args.addend, place.addend, tile.column + 64 * part,
            tile.row + kBoxRows * warp.number);
}

// Waits until the copies from the warp's two boxes (buffers in shared memory) to y have read them. Then starts to load the addend of a part
// into the part's box. The addend of the previous part may still be on its way into the other box.
__device__ __forceinline__ void fetch_addend(const Args& args, const Warp& warp, const Tile& tile, int part) {
  if (warp.lane != 0) return;
  const Place place = place_of(warp, part);
  tma::wait_until_read<0>();
  tma::arrive_and_expect(place.addend, kBoxBytes);
  load_addend(args, warp, tile, part, place);
}

// The three functions below access a box (64 columns of y in shared memory) 16 columns at a time, as four matrices of 8 x 8 elements. They
// return the address that a lane passes to ldmatrix or stmatrix, load the matrices, and store them. `step`, 0 to 3, selects the group of 16
// columns. Words 0 and 2 belong to the thread's first row, 1 and 3 to the row eight below; words 0 and 1 belong to the left eight columns.
__device__ __forceinline__ uint32_t place_in_box(const Warp& warp, uint32_t box, int step) {
  const auto lane = static_cast<uint32_t>(warp.lane);
  const uint32_t chunk = 2 * static_cast<uint32_t>(step) + lane / 16;
  return box + lane % 16 * kRowBytes + ((chunk ^ lane % 8) << 4);
}
__device__ __forceinline__ void load_matrices(uint32_t from, uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void store_matrices(uint32_t to, const uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}
// Starts to copy a complete box from shared memory to y.
__device__ __forceinline__ void send_box(const Args& args, const Warp& warp, const Tile& tile, int part,
                                         uint32_t box) {
  wgmma::fence_async_proxy();
  __syncwarp();
  if (warp.lane == 0) tma::store(&args.y, box, tile.column + 64 * part, tile.row + kBoxRows * warp.number);
}

// The biases of the columns of a tile that one thread holds: two biases for every four sums of the thread, which belong to two rows and two
// columns.
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

// The elements of a finished tile that one thread holds until they are written, and the position of the tile. The sums have the layout of
// wgmma_64x256.cuh; each word contains two columns.
struct Waiting {
  uint32_t sums[64];
  Tile tile;
  bool is_valid = false;
};

template <typename T>
__device__ __forceinline__ void take(const float (&acc)[128], Waiting& waiting) {
#pragma unroll
  for (int i = 0; i < 64; ++i) waiting.sums[i] = cuda::narrow_pair<T>(acc[2 * i], acc[2 * i + 1]);
}

// Starts the products of a stage (64 columns of x and w) and waits for those of the previous stage. The started products may still run when
// the function returns.
template <typename T>
__device__ __forceinline__ void multiply_stage(const Warp& warp, Ring& ring, float (&acc)[128], bool adds) {
  constexpr DType kType = std::is_same_v<T, __nv_bfloat16> ? DType::kBF16 : DType::kF16;
  tma::wait(ring.full(), ring.phase());
  const uint64_t x = wgmma::descriptor(ring.x() + static_cast<uint32_t>(warp.number / 4) * 64 * kRowBytes);
  const uint64_t w = wgmma::descriptor(ring.w());
  wgmma::begin_products();
#pragma unroll
  for (int i = 0; i < 4; ++i) wgmma::multiply_64x256<kType>(acc, x + 2 * i, w + 2 * i, i > 0 || adds ? 1 : 0);
  wgmma::close_products();
  wgmma::wait_for_products<1>();
  if (adds && warp.lane == 0) tma::arrive(ring.empty(ring.met - 1));
  ++ring.met;
}
// Waits for the products of the last stage of a tile (its last 64 columns of x and w).
__device__ __forceinline__ void end_products(const Warp& warp, const Ring& ring, float (&acc)[128]) {
  wgmma::wait_for_products<0>();
#pragma unroll
  for (float& sum : acc) asm volatile("" : "+f"(sum)::"memory");
  if (warp.lane == 0) tma::arrive(ring.empty(ring.met - 1));
}

// Creates the barriers of a thread block. One thread calls it; the block must synchronize before other threads use the barriers.
__device__ __forceinline__ void make_barriers(const Ring& ring) {
  for (uint32_t stage = 0; stage < kStages; ++stage) {
    tma::make_barrier(ring.full(stage), 1);
    tma::make_barrier(ring.empty(stage), kConsumerWarps);
  }
  for (uint32_t box = 0; box < kConsumerWarps * 2; ++box)
    tma::make_barrier(ring.base + kAddendBarriersAt + 8 * box, 1);
  tma::fence_barriers();
}
// Divides the work of a thread block: one thread of the last warpgroup (the producer) loads tiles, and the other two warpgroups call
// consume(warp). The producer gives up registers for the accumulators of the consumers. There are 504 registers for three threads, one of
// each warpgroup: the producer keeps 24, and the other two get 240 each.
template <typename Consume>
__device__ __forceinline__ void divide_work(const Args& args, const Ring& ring, const Consume& consume) {
  if (threadIdx.x >= 2 * wgmma::kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 2 * wgmma::kWarpgroup) produce(args, ring);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    Warp warp;
    warp.boxes = ring.base + kBoxesAt + static_cast<uint32_t>(warp.number) * 2 * kBoxBytes;
    warp.addends = ring.base + kAddendBarriersAt + static_cast<uint32_t>(warp.number) * 2 * 8;
    consume(warp);
  }
}

}  // namespace plimsoll::linear
