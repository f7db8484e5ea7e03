// Linear layers on Hopper. A block per multiprocessor goes over tiles of 128 rows and 256 columns of y; one
// thread of it brings 64 columns of x and w at a time by TMA into a ring of stages, and two warpgroups
// multiply them, 64 rows each. A finished tile, rounded to 16 bits, waits in registers: a quarter of its
// columns goes out to memory while the next tile's products run, for every four stages of these. An
// activation and the bias before it are on that way; a bias alone is added before the tile is rounded, and
// its numbers come while the tile's last products run. An addend is on that way too: the copy engine brings
// a quarter of it to where that quarter of y will leave from, two stages before.
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
constexpr uint32_t kStages = 4;
constexpr uint32_t kRowBytes = kStageTerms * 2;
constexpr uint32_t kStageBytes = (kRows + kColumns) * kRowBytes;
constexpr int kConsumerWarps = 8;
constexpr int kThreads = 3 * wgmma::kWarpgroup;

enum class Epilogue : uint8_t { kNone, kBias, kAddend, kBiasGelu };
constexpr int kBoxRows = 16;  // of y: a warp's
constexpr uint32_t kBoxBytes = kBoxRows * kRowBytes;
// Stages; two boxes of each warp, one being written and one on its way out; two barriers of each stage and
// one of each box, for an addend.
constexpr uint32_t kBoxesAt = kStages * kStageBytes;
constexpr uint32_t kBarriersAt = kBoxesAt + kConsumerWarps * 2 * kBoxBytes;
constexpr uint32_t kAddendBarriersAt = kBarriersAt + 2 * 8 * kStages;
constexpr uint32_t kSharedBytes = kAddendBarriersAt + kConsumerWarps * 2 * 8;

struct Args {
  CUtensorMap x, w, addend, y;
  cuda::AnyFloats bias;
  int tiles_down, tiles_across, stages;  // of a tile's terms
};

// A stage of the ring, as each of its users counts on its own: of all stages that it has met, from 0 on.
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

// Neighbours in a row of tiles share x, and w stays in the L2 cache.
struct Tile {
  int row, column;
};
__device__ Tile tile_of(const Args& args, int number) {
  return {number / args.tiles_across * kRows, number % args.tiles_across * kColumns};
}

__device__ void produce(const Args& args, Ring ring) {
  for (int number = static_cast<int>(blockIdx.x); number < args.tiles_down * args.tiles_across;
       number += static_cast<int>(gridDim.x)) {
    const Tile tile = tile_of(args, number);
    for (int stage = 0; stage < args.stages; ++stage) {
      tma::wait(ring.empty(ring.met), ring.phase() ^ 1);
      tma::arrive_and_expect(ring.full(), kStageBytes);
      tma::load(ring.x(), &args.x, ring.full(), stage * kStageTerms, tile.row);
      tma::load(ring.w(), &args.w, ring.full(), stage * kStageTerms, tile.column);
      ++ring.met;
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
  uint32_t boxes = 0;    // its two
  uint32_t addends = 0;  // the barriers of both
};

// Where a part of a tile leaves from, and the phase that says that its addend is there.
struct Place {
  uint32_t box, addend, phase;
};
__device__ __forceinline__ Place place_of(const Warp& warp, int part) {
  const auto number = static_cast<uint32_t>(part);
  return {warp.boxes + number % 2 * kBoxBytes, warp.addends + number % 2 * 8, number / 2};
}

// One thread's: brings the addend of a part of a tile.
__device__ __forceinline__ void load_addend(const Args& args, const Warp& warp, const Tile& tile, int part,
                                            const Place& place) {
  tma::load(place.box, &args.addend, place.addend, tile.column + 64 * part,
            tile.row + kBoxRows * warp.number);
}
// The same once what was in its box has left. That of the part before may still be on its way in.
__device__ __forceinline__ void fetch_addend(const Args& args, const Warp& warp, const Tile& tile, int part) {
  if (warp.lane != 0) return;
  const Place place = place_of(warp, part);
  tma::wait_until_read<0>();
  tma::arrive_and_expect(place.addend, kBoxBytes);
  load_addend(args, warp, tile, part, place);
}

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
// Of the 16 columns `step` of a part, this thread's: in the left and in the right eight. None where nothing
// follows the rounding of a tile, or no bias.
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

// 16 columns of a part (`sums`: its 16 words) go to the box, where their addend is if there is one; the last
// of four steps sends it off.
template <typename T, Epilogue kEpilogue>
__device__ __forceinline__ void put_out(const Args& args, const Warp& warp, const Tile& tile,
                                        const uint32_t* sums, int part, int step, const Biases& biases,
                                        const Place& place) {
  constexpr bool kAdds = kEpilogue == Epilogue::kAddend;
  if (step == 0) {
    if (kAdds) {
      tma::wait(place.addend, place.phase);
    } else if (warp.lane == 0) {
      tma::wait_until_read<1>();
    }
    __syncwarp();
  }
  const auto lane = static_cast<uint32_t>(warp.lane);
  const uint32_t chunk = 2 * static_cast<uint32_t>(step) + lane / 16;
  const uint32_t to = place.box + lane % 16 * kRowBytes + ((chunk ^ lane % 8) << 4);
  uint32_t addends[4] = {};
  if constexpr (kAdds)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(addends[0]), "=r"(addends[1]), "=r"(addends[2]), "=r"(addends[3])
                 : "r"(to)
                 : "memory");
  uint32_t y[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    y[i] = finish<T, kEpilogue>(sums[4 * step + i], i < 2 ? biases.left : biases.right, addends[i]);
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(y[0]),
               "r"(y[1]), "r"(y[2]), "r"(y[3])
               : "memory");
  if (step < 3) return;
  wgmma::show_to_products();
  __syncwarp();
  if (warp.lane == 0)
    tma::store(&args.y, place.box, tile.column + 64 * part, tile.row + kBoxRows * warp.number);
}

template <typename T, Epilogue kEpilogue>
__device__ __forceinline__ void put_out_part(const Args& args, const Warp& warp, const Tile& tile,
                                             const uint32_t* sums, int part, const Place& place) {
#pragma unroll
  for (int step = 0; step < 4; ++step)
    put_out<T, kEpilogue>(args, warp, tile, sums, part, step,
                          biases_of<kEpilogue>(args, warp, tile, part, step), place);
}

// Products of four stages. While they run, a part of the waiting tile is put out, if there is one; fetch()
// is called when what the part before it has sent off has had the time of two stages to leave.
template <typename T, Epilogue kEpilogue, typename Fetch>
__device__ __forceinline__ void multiply_part(const Args& args, const Warp& warp, Ring& ring,
                                              float (&acc)[128], bool adds, const Tile& tile,
                                              const uint32_t* sums, int part, bool puts_out,
                                              const Fetch& fetch) {
  constexpr DType kType = std::is_same_v<T, __nv_bfloat16> ? DType::kBF16 : DType::kF16;
#pragma unroll
  for (int step = 0; step < kStagesOfPart; ++step) {
    Biases biases{};
    if (puts_out) biases = biases_of<kEpilogue>(args, warp, tile, part, step);
    tma::wait(ring.full(), ring.phase());
    const uint64_t x = wgmma::descriptor(ring.x() + static_cast<uint32_t>(warp.number / 4) * 64 * kRowBytes);
    const uint64_t w = wgmma::descriptor(ring.w());
    wgmma::begin_products();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      wgmma::multiply_64x256<kType>(acc, x + 2 * i, w + 2 * i, i > 0 || step > 0 || adds ? 1 : 0);
    wgmma::close_products();
    wgmma::wait_for_products<1>();
    if ((step > 0 || adds) && warp.lane == 0) tma::arrive(ring.empty(ring.met - 1));
    ++ring.met;
    if (puts_out) put_out<T, kEpilogue>(args, warp, tile, sums, part, step, biases, place_of(warp, part));
    if (step == 1) fetch();
  }
}

// What waits when the last products are done. All addends are asked for at once: the first part's is there,
// the second's box is free, and the others lie where this warp's rows of x were, which its warpgroup has
// read.
template <typename T, Epilogue kEpilogue>
__device__ void put_out_last(const Args& args, const Warp& warp, const Ring& ring, const Waiting& waiting) {
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
    put_out_part<T, kEpilogue>(args, warp, waiting.tile, waiting.sums + 16 * part, part, places[part]);
}

// kHidden: how many parts of a tile find products to hide behind.
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
                                  part, waiting.is_there, [&] {
                                    if (!kAdds) return;
                                    if (part + 1 == kParts) {
                                      fetch_addend(args, warp, tile, 0);
                                    } else if (waiting.is_there) {
                                      fetch_addend(args, warp, waiting.tile, part + 1);
                                    }
                                  });
    }
    for (int stage = kHidden * kStagesOfPart; stage < args.stages; stage += kStagesOfPart)
      multiply_part<T, kEpilogue>(args, warp, ring, acc, true, waiting.tile, waiting.sums, 0, false, [] {});
    if (kAdds && kHidden < kParts) fetch_addend(args, warp, tile, 0);
    if (waiting.is_there) {
#pragma unroll
      for (int part = kHidden; part < kParts; ++part)
        put_out_part<T, kEpilogue>(args, warp, waiting.tile, waiting.sums + 16 * part, part,
                                   place_of(warp, part));
    }
    TileBiases biases;
    if constexpr (kEpilogue == Epilogue::kBias) biases.load<T>(args, warp, tile);
    wgmma::wait_for_products<0>();
#pragma unroll
    for (float& sum : acc) asm volatile("" : "+f"(sum)::"memory");
    if (warp.lane == 0) tma::arrive(ring.empty(ring.met - 1));
    if constexpr (kEpilogue == Epilogue::kBias) biases.add_to(acc);
    take<T>(acc, waiting);
    waiting.tile = tile;
    waiting.is_there = true;
  }
  if (waiting.is_there) put_out_last<T, kEpilogue>(args, warp, ring, waiting);
  if (warp.lane == 0) tma::wait_until_stored();
}

template <typename T, Epilogue kEpilogue, int kHidden>
__global__ void __launch_bounds__(kThreads, 1) linear_cuda_wgmma_kernel(const __grid_constant__ Args args) {
  extern __shared__ __align__(1024) std::byte shared[];
  const Ring ring{.base = tma::shared_address(shared)};
  if (threadIdx.x == 0) {
    for (uint32_t stage = 0; stage < kStages; ++stage) {
      tma::make_barrier(ring.full(stage), 1);
      tma::make_barrier(ring.empty(stage), kConsumerWarps);
    }
    for (uint32_t box = 0; box < kConsumerWarps * 2; ++box)
      tma::make_barrier(ring.base + kAddendBarriersAt + 8 * box, 1);
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
    warp.addends = ring.base + kAddendBarriersAt + static_cast<uint32_t>(warp.number) * 2 * 8;
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
void run(const LinearProblem& problem, const MatmulArgs& operands, CudaStream stream) {
  PLIMSOLL_CHECK(linear_sizes_fit(problem), "[{}, {}] x [{}, {}]^T on sm_{}", problem.rows, problem.terms,
                 problem.columns, problem.terms, problem.sm);
  const DType dtype = problem.dtype;
  const ConstView bias = operands.bias;
  PLIMSOLL_CHECK(!bias || bias.dtype == DType::kF32 || bias.dtype == dtype, "a bias in {} beside {}",
                 dtype_name(bias.dtype), dtype_name(dtype));
  const auto of_boxes = [&](const void* data) {
    return tensor_map(data, dtype, problem.rows, problem.columns, kBoxRows);
  };
  const Args args{.x = tensor_map(operands.a.data, dtype, problem.rows, problem.terms, kRows),
                  .w = tensor_map(operands.b.data, dtype, problem.columns, problem.terms, kColumns),
                  .addend = operands.addend ? of_boxes(operands.addend.data) : CUtensorMap{},
                  .y = of_boxes(operands.c.data),
                  .bias = {bias.data, bias.dtype},
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

void linear_cuda_wgmma(const LinearProblem& problem, LinearActivation activation, const MatmulArgs& args,
                       CudaStream stream) {
  const bool has_gelu = activation == LinearActivation::kGelu;
  PLIMSOLL_CHECK(has_gelu ? args.bias && !args.addend : !args.bias || !args.addend,
                 "a layer of {} x {} x {} with {}", problem.rows, problem.columns, problem.terms,
                 has_gelu ? "GELU has a bias and no addend" : "a bias and an addend");
  if (has_gelu) return run<Epilogue::kBiasGelu>(problem, args, stream);
  if (args.bias) return run<Epilogue::kBias>(problem, args, stream);
  if (args.addend) return run<Epilogue::kAddend>(problem, args, stream);
  run<Epilogue::kNone>(problem, args, stream);
}

}  // namespace plimsoll
