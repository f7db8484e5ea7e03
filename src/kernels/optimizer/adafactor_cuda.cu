#include "kernels/optimizer/adafactor.h"

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/optimizer/cuda/adafactor_tile.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = kAdafactorThreads;
constexpr int kWarps = kThreads / 32;
constexpr int kTileRows = static_cast<int>(kAdafactorTileRows);

struct AdafactorScalars {
  Scalar learning_rate;
  const int64_t* step;
  OptionalScalar clip, finite;
  double epsilon1, epsilon2, clip_threshold, decay_rate, weight_decay;
  float beta1;
  bool scales_by_parameter;
  NoiseScalars noise;

  // Returns 1 - b, the weight of the new squared gradients in the states (adafactor.h).
  __device__ __forceinline__ double new_share() const { return pow(static_cast<double>(*step), decay_rate); }
  __device__ __forceinline__ float blended(float state, double mean, double share) const {
    return static_cast<float>((1.0 - share) * static_cast<double>(state) + share * (mean + epsilon1));
  }
};

// Computes the sums of the squared gradients of a tile by row and by column. For a vector, computes its new state v instead.
template <class Table>
__global__ void __launch_bounds__(kThreads)
    adafactor_sums_kernel(const AdafactorScalars scalars, const __grid_constant__ Table table) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ float warp_sums[kTileRows][kWarps];
  const auto clip = static_cast<float>(scalars.clip.get());
  const double share = scalars.new_share();
  const int thread = static_cast<int>(threadIdx.x);
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    const AdafactorEntry& entry = table.entries[table.find(chunk)];
    const AdafactorTile tile(entry, chunk);
    float column_sums[4] = {};
#pragma unroll 4
    for (int r = 0; r < tile.num_rows; ++r) {
      float g[4];
      load_gradient(entry, tile, r, g);
      float sum = 0.0f;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        g[k] *= clip;
        const float square = g[k] * g[k];
        sum += square;
        column_sums[k] += square;
      }
      sum = warp_sum(sum);
      if (thread % 32 == 0) warp_sums[r][thread / 32] = sum;
    }
    if (entry.row == nullptr) {
      for (int k = 0; k < tile.num_columns; ++k) {
        float& v = entry.column[tile.column + k];
        v = scalars.blended(v, static_cast<double>(column_sums[k]), share);
      }
    } else {
      for (int k = 0; k < tile.num_columns; ++k) {
        entry.column_sums[tile.row / kTileRows * entry.columns + tile.column + k] = column_sums[k];
      }
    }
    __syncthreads();
    if (entry.row != nullptr && thread < tile.num_rows) {
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += warp_sums[thread][w];
      entry.row_sums[static_cast<int64_t>(tile.row + thread) * entry.column_tiles +
                     tile.index % entry.column_tiles] = sum;
    }
    __syncthreads();
  }
}

// Computes the new row and column states of matrices. Two thread blocks handle one tensor, one of them the rows and the other the columns.
template <class Table>
__global__ void __launch_bounds__(kThreads)
    adafactor_states_kernel(const AdafactorScalars scalars, const __grid_constant__ Table table) {
  if (scalars.finite.get() == 0.0) return;
  const AdafactorEntry& entry = table.entries[blockIdx.x / 2];
  if (entry.row == nullptr || entry.num_tiles == 0) return;
  __shared__ double slots[kWarps];
  const double share = scalars.new_share();
  if (blockIdx.x % 2 == 1) {
    const int row_tiles = entry.num_tiles / entry.column_tiles;
    for (int64_t c = threadIdx.x; c < entry.columns; c += kThreads) {
      double sum = 0.0;
#pragma unroll 8
      for (int tile = 0; tile < row_tiles; ++tile) {
        sum += static_cast<double>(entry.column_sums[tile * entry.columns + c]);
      }
      entry.column[c] = scalars.blended(entry.column[c], sum / static_cast<double>(entry.rows), share);
    }
    return;
  }
  double total = 0.0;
  for (int r = static_cast<int>(threadIdx.x); r < entry.rows; r += kThreads) {
    double sum = 0.0;
    for (int tile = 0; tile < entry.column_tiles; ++tile) {
      sum += static_cast<double>(entry.row_sums[static_cast<int64_t>(r) * entry.column_tiles + tile]);
    }
    entry.row[r] = scalars.blended(entry.row[r], sum / static_cast<double>(entry.columns), share);
    total += static_cast<double>(entry.row[r]);
  }
  total = block_sum(total, static_cast<int>(threadIdx.x), kWarps, slots);
  if (threadIdx.x == 0) *entry.mean = total / static_cast<double>(entry.rows);
}

// Loads the factors by which the gradients of a tile are multiplied: the factors of the thread's columns into registers, and those of the
// rows into shared memory. Requires: all threads call it, and no thread still reads `rows`.
__device__ __forceinline__ void load_factors(const AdafactorEntry& entry, const AdafactorTile& tile,
                                             float clip, float (&columns)[4], float (&rows)[kTileRows]) {
  load_columns(entry.packs, tile.num_columns, 1.0f, columns, LoadFloats{entry.column + tile.column});
#pragma unroll
  for (int k = 0; k < 4; ++k) columns[k] = 1.0f / sqrtf(columns[k]);
  const int r = static_cast<int>(threadIdx.x);
  if (r < tile.num_rows) {
    const float row =
        entry.row == nullptr ? 1.0f : 1.0f / sqrtf(entry.row[tile.row + r] / static_cast<float>(*entry.mean));
    rows[r] = clip * row;
  }
  __syncthreads();
}

// Computes the sum of the squared updates of a tile. If the size of the parameters scales the learning rate, also computes the sum of the
// squared parameters.
template <class Param, class Table>
__global__ void __launch_bounds__(kThreads)
    adafactor_norms_kernel(const AdafactorScalars scalars, const __grid_constant__ Table table) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ float rows[kTileRows];
  __shared__ double slots[2][kWarps];
  const auto clip = static_cast<float>(scalars.clip.get());
  const int thread = static_cast<int>(threadIdx.x);
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    const AdafactorEntry& entry = table.entries[table.find(chunk)];
    const AdafactorTile tile(entry, chunk);
    float columns[4];
    load_factors(entry, tile, clip, columns, rows);
    double u_sum = 0.0, p_sum = 0.0;
#pragma unroll 4
    for (int r = 0; r < tile.num_rows; ++r) {
      float g[4];
      load_gradient(entry, tile, r, g);
      float squares = 0.0f;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float u = g[k] * rows[r] * columns[k];
        squares = fmaf(u, u, squares);
      }
      u_sum += static_cast<double>(squares);
      if (!scalars.scales_by_parameter) continue;
      float p[4];
      load_columns(entry.packs, tile.num_columns, 0.0f, p,
                   LoadNumbers<Param>{static_cast<const Param*>(entry.param) +
                                      (tile.row + r) * entry.columns + tile.column});
#pragma unroll
      for (int k = 0; k < 4; ++k) p_sum += static_cast<double>(p[k]) * static_cast<double>(p[k]);
    }
    u_sum = block_sum(u_sum, thread, kWarps, slots[0]);
    p_sum = block_sum(p_sum, thread, kWarps, slots[1]);
    if (thread == 0) {
      entry.tile_sums[2 * tile.index] = u_sum;
      entry.tile_sums[2 * tile.index + 1] = p_sum;
    }
    __syncthreads();
  }
}

struct AdafactorStep {
  float scale, decay;
};

// Computes the coefficients of the step from the sums of all tiles of a tensor. Requires: all threads call it.
__device__ __forceinline__ AdafactorStep adafactor_step(const AdafactorEntry& entry,
                                                        const AdafactorScalars& scalars,
                                                        double (&slots)[2][kWarps]) {
  const int thread = static_cast<int>(threadIdx.x);
  double u = 0.0, p = 0.0;
  for (int i = thread; i < entry.num_tiles; i += kThreads) {
    u += entry.tile_sums[2 * i];
    p += entry.tile_sums[2 * i + 1];
  }
  u = block_sum(u, thread, kWarps, slots[0]);
  p = block_sum(p, thread, kWarps, slots[1]);
  const double n = static_cast<double>(entry.rows) * static_cast<double>(entry.columns);
  double rate = scalars.learning_rate.get();
  if (scalars.scales_by_parameter) rate *= fmax(scalars.epsilon2, sqrt(p / n));
  const double rms = sqrt(u / n) / scalars.clip_threshold;
  const double divisor = rms > 1.0 || isnan(rms) ? rms : 1.0;
  return {static_cast<float>(rate / divisor), static_cast<float>(rate * scalars.weight_decay)};
}

template <class Param, class Table>
__global__ void __launch_bounds__(kThreads)
    adafactor_update_kernel(const AdafactorScalars scalars, const __grid_constant__ Table table) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ float rows[kTileRows];
  __shared__ double slots[2][kWarps];
  const auto clip = static_cast<float>(scalars.clip.get());
  Noise noise(scalars.noise);
  const uint32_t first_site = noise.site + static_cast<uint32_t>(table.first_index);
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    const int index = table.find(chunk);
    const AdafactorEntry& entry = table.entries[index];
    noise.site = first_site + static_cast<uint32_t>(index);
    const AdafactorTile tile(entry, chunk);
    float columns[4];
    load_factors(entry, tile, clip, columns, rows);
    const AdafactorStep step = adafactor_step(entry, scalars, slots);
#pragma unroll 2
    for (int r = 0; r < tile.num_rows; ++r) {
      const int64_t first = (tile.row + r) * entry.columns + tile.column;
      float g[4], p[4], m[4];
      load_gradient(entry, tile, r, g);
      load_columns(entry.packs, tile.num_columns, 0.0f, p,
                   LoadNumbers<Param>{static_cast<const Param*>(entry.param) + first});
      if (entry.m != nullptr)
        load_columns(entry.packs, tile.num_columns, 0.0f, m, LoadFloats{entry.m + first});
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float change = g[k] * rows[r] * columns[k] * step.scale;
        if (entry.m != nullptr) {
          change = fmaf(scalars.beta1, m[k] - change, change);
          m[k] = change;
        }
        p[k] -= fmaf(step.decay, p[k], change);
      }
      store_parameters<Param>(entry, tile.num_columns, first, p, noise);
      if (entry.m != nullptr) store_columns(entry.packs, tile.num_columns, entry.m + first, m);
    }
    __syncthreads();
  }
}

AdafactorEntry entry_of(const AdafactorTensor& tensor, const AdafactorScratch& layout, std::byte* scratch,
                        bool has_m, DType param_dtype) {
  constexpr const char* kKernel = "adafactor_cuda";
  check_cuda_operands(kKernel, {{"grad", tensor.grad}});
  PLIMSOLL_CHECK(!tensor.low || tensor.low.dtype == DType::kBF16 || tensor.low.dtype == DType::kF16,
                 "{}: the low-precision copy of a parameter must be bf16 or f16, but is {}", kKernel,
                 dtype_name(tensor.low.dtype));
  PLIMSOLL_CHECK(tensor.param.dtype == param_dtype,
                 "{}: all parameters of a list must have one type, but one is {} and the first is {}",
                 kKernel, dtype_name(tensor.param.dtype), dtype_name(param_dtype));
  AdafactorEntry entry{};
  entry.param = tensor.param.data;
  entry.grad = tensor.grad.data;
  entry.row = tensor.is_matrix() ? tensor.row.as<float>() : nullptr;
  entry.column = tensor.is_matrix() ? tensor.column.as<float>() : tensor.v.as<float>();
  entry.m = has_m ? tensor.m.as<float>() : nullptr;
  entry.low = tensor.low.data;
  entry.row_sums = reinterpret_cast<float*>(scratch + layout.row_sums);
  entry.column_sums = reinterpret_cast<float*>(scratch + layout.column_sums);
  entry.tile_sums = reinterpret_cast<double*>(scratch + layout.tile_sums);
  entry.mean = reinterpret_cast<double*>(scratch + layout.mean);
  entry.columns = tensor.columns;
  entry.first = tensor.first;
  entry.rows = narrow<int32_t>(tensor.rows);
  entry.column_tiles = narrow<int32_t>(layout.column_tiles);
  entry.num_tiles = narrow<int32_t>(layout.tiles());
  entry.grad_dtype = tensor.grad.dtype;
  entry.low_dtype = tensor.low.dtype;
  entry.packs = tensor.columns % 4 == 0 && tensor.first % 4 == 0 &&
                aligned_to_packs({entry.param, entry.grad, entry.column, entry.m, entry.low});
  return entry;
}

template <class Param, int kEntries>
void launch_tables(const AdafactorArgs& args, const AdafactorScalars& scalars, CudaStream stream) {
  using Table = TensorTable<AdafactorEntry, kEntries>;
  auto* scratch = static_cast<std::byte*>(args.scratch.data);
  size_t next = 0;
  while (next < args.tensors.size()) {
    Table table;
    table.first_index = narrow<int32_t>(next);
    int64_t chunks = 0;
    for (; next < args.tensors.size() && table.num_entries < Table::kCapacity; ++next) {
      const AdafactorTensor& tensor = args.tensors[next];
      const AdafactorScratch layout = adafactor_scratch(tensor.rows, tensor.columns, tensor.is_matrix());
      AdafactorEntry& entry = table.entries[table.num_entries++];
      entry = entry_of(tensor, layout, scratch, args.beta1.has_value(), args.tensors.front().param.dtype);
      entry.first_chunk = narrow<uint32_t>(chunks);
      chunks += layout.tiles();
      scratch += layout.bytes;
    }
    table.num_chunks = narrow<uint32_t>(chunks);
    if (chunks == 0) continue;
    const auto most = static_cast<unsigned>(device_attribute<cudaDevAttrMultiProcessorCount>()) * 8u;
    const unsigned blocks = table.num_chunks < most ? table.num_chunks : most;
    adafactor_sums_kernel<<<blocks, kThreads, 0, stream>>>(scalars, table);
    PLIMSOLL_CHECK_LAUNCH("adafactor_sums");
    adafactor_states_kernel<<<2u * static_cast<unsigned>(table.num_entries), kThreads, 0, stream>>>(scalars,
                                                                                                    table);
    PLIMSOLL_CHECK_LAUNCH("adafactor_states");
    adafactor_norms_kernel<Param><<<blocks, kThreads, 0, stream>>>(scalars, table);
    PLIMSOLL_CHECK_LAUNCH("adafactor_norms");
    adafactor_update_kernel<Param><<<blocks, kThreads, 0, stream>>>(scalars, table);
    PLIMSOLL_CHECK_LAUNCH("adafactor_update");
  }
}

template <class Param>
void launch(const AdafactorArgs& args, const AdafactorScalars& scalars, CudaStream stream) {
  if (args.tensors.size() <= kSmallTable) {
    launch_tables<Param, kSmallTable>(args, scalars, stream);
  } else {
    launch_tables<Param, kLargeTable<AdafactorEntry>>(args, scalars, stream);
  }
}

}  // namespace
}  // namespace cuda

void adafactor_cuda(const AdafactorArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adafactor_cuda";
  PLIMSOLL_CHECK(args.decay_rate < 0.0, "the decay rate of Adafactor must be negative, but is {}",
                 args.decay_rate);
  PLIMSOLL_CHECK(args.clip_threshold > 0.0, "the clip threshold of Adafactor must be positive, but is {}",
                 args.clip_threshold);
  PLIMSOLL_CHECK(args.scratch || args.tensors.empty(), "{} needs scratch memory, but has none", kKernel);
  const cuda::AdafactorScalars scalars{
      .learning_rate = cuda::scalar_of(kKernel, "learning_rate", args.learning_rate),
      .step = args.step.as<int64_t>(),
      .clip = cuda::optional_scalar(kKernel, "clip_coefficient", args.clip_coefficient),
      .finite = cuda::optional_scalar(kKernel, "finite", args.finite),
      .epsilon1 = args.epsilon1,
      .epsilon2 = args.epsilon2,
      .clip_threshold = args.clip_threshold,
      .decay_rate = args.decay_rate,
      .weight_decay = args.weight_decay,
      .beta1 = static_cast<float>(args.beta1.value_or(0.0)),
      .scales_by_parameter = args.scale_by_parameter == ScaleByParameter::kYes,
      .noise = cuda::NoiseScalars::of(args)};
  const DType dtype = args.tensors.empty() ? DType::kF32 : args.tensors.front().param.dtype;
  PLIMSOLL_CHECK(dtype == DType::kF32 || dtype == DType::kBF16,
                 "{}: parameters must be f32 or bf16, but are {}", kKernel, dtype_name(dtype));
  if (dtype == DType::kF32) {
    cuda::launch<float>(args, scalars, stream);
  } else {
    cuda::launch<__nv_bfloat16>(args, scalars, stream);
  }
}

}  // namespace plimsoll
