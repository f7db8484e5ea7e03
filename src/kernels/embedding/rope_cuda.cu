#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/embedding/rope.h"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

struct TableArgs {
  const int32_t* positions;
  const int32_t* cu_seqlens;
  float* table;
  int64_t T;
  int B, half;
  RopeFrequencies frequencies;
};

// Returns the length of the sequence that row t belongs to, or 0 for a tail row. The sequence ends at the first offset in cu_seqlens that
// is above t.
__device__ int length_of_sequence(const int32_t* cu_seqlens, int B, int64_t t) {
  if (t >= cu_seqlens[B]) return 0;
  int low = 0, high = B;  // invariant: cu_seqlens[low] <= t < cu_seqlens[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (t < cu_seqlens[middle] ? high : low) = middle;
  }
  return cu_seqlens[high] - cu_seqlens[low];
}

// Computes the cosine and sine of one frequency for one row per thread. Neighbouring threads compute neighbouring frequencies.
__global__ void __launch_bounds__(kThreads) rope_table_kernel(const __grid_constant__ TableArgs args) {
  begin_early_launch();
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t t = at / args.half;
  const int i = static_cast<int>(at % args.half);
  if (t >= args.T) return;
  const RopeFrequencies& f = args.frequencies;
  double frequency = f.beyond[i];
  // Searches for the length of the sequence only if the frequencies depend on it. They do for RoPE types such as dynamic and longrope,
  // which use other frequencies for sequences of more than f.original tokens.
  if (f.original > 0) {
    const int length = length_of_sequence(args.cu_seqlens, args.B, t);
    if (length <= f.original) {
      frequency = f.within[i];
    } else if (f.growth != 0.0 && i > 0) {
      const double stretch =
          f.growth * static_cast<double>(length) / static_cast<double>(f.original) - (f.growth - 1.0);
      frequency = f.within[i] * pow(stretch, -2.0 * i / (2.0 * args.half - 2.0));
    }
  }
  double sine, cosine;
  sincos(static_cast<double>(args.positions[t]) * frequency, &sine, &cosine);
  float* row = args.table + t * 2 * args.half;
  row[i] = static_cast<float>(f.scale * cosine);
  row[args.half + i] = static_cast<float>(f.scale * sine);
}

// Rotates the heads of rows. A thread handles one unit of 2 N elements: N elements of the first half of a head and the corresponding N of
// its second half. Units of heads that are not rotated are copied.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(const T* x, const float* table, T* y, int64_t rows, int64_t columns, int units,
                int rotated_units, int half, float sign) {
  begin_early_launch();
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t t = at / units;
  const int unit = static_cast<int>(at % units);
  if (t >= rows) return;
  const int units_of_head = half / N;
  const int i = unit % units_of_head * N;
  const int64_t first = t * columns + static_cast<int64_t>(unit / units_of_head) * 2 * half + i;
  const Raw<T, N> raw_a = load_raw<T, N>(x + first), raw_b = load_raw<T, N>(x + first + half);
  if (unit >= rotated_units) {
    store_raw<T, N>(y + first, raw_a);
    store_raw<T, N>(y + first + half, raw_b);
    return;
  }
  float a[N], b[N], c[N], s[N], from_a[N], from_b[N];
  unpack<T, N>(raw_a, a);
  unpack<T, N>(raw_b, b);
  load_floats<float, N>(table + t * 2 * half + i, c);
  load_floats<float, N>(table + t * 2 * half + half + i, s);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float sine = sign * s[k];
    from_a[k] = fmaf(-b[k], sine, a[k] * c[k]);
    from_b[k] = fmaf(a[k], sine, b[k] * c[k]);
  }
  store_floats<T, N>(y + first, from_a);
  store_floats<T, N>(y + first + half, from_b);
}

template <typename T, int N>
void launch_rope(const RopeArgs& args, CudaStream stream) {
  const int64_t units_of_head = args.D / 2 / N;
  const int64_t rotated = args.H * units_of_head;
  // If y is the same array as x, the heads that are not rotated need no copy.
  const int64_t units = args.x.data == args.y.data ? rotated : args.N / args.D * units_of_head;
  const int64_t blocks = ceil_div(args.T * units, kThreads);
  if (blocks == 0) return;
  launch_early(rope_kernel<T, N>, {dim3(static_cast<unsigned>(blocks)), dim3(kThreads)}, stream,
               static_cast<const T*>(args.x.data), static_cast<const float*>(args.table.data),
               static_cast<T*>(args.y.data), args.T, args.N, static_cast<int>(units),
               static_cast<int>(rotated), static_cast<int>(args.D / 2),
               args.direction == RopeDirection::kForward ? 1.0f : -1.0f);
}

}  // namespace
}  // namespace cuda

void rope_table_cuda(const RopeTableArgs& args, CudaStream stream) {
  PLIMSOLL_CHECK(args.positions && args.cu_seqlens && args.table.dtype == DType::kF32,
                 "rope_table_cuda: positions, cu_seqlens and table must be present, and table must be f32");
  const int64_t blocks = cuda::ceil_div(args.T * (args.D / 2), cuda::kThreads);
  if (blocks == 0) return;
  const cuda::TableArgs table{
      args.positions.as<int32_t>(), args.cu_seqlens.as<int32_t>(), args.table.as<float>(), args.T,
      static_cast<int>(args.B),     static_cast<int>(args.D / 2),  args.frequencies};
  cuda::launch_early(cuda::rope_table_kernel, {dim3(static_cast<unsigned>(blocks)), dim3(cuda::kThreads)},
                     stream, table);
}

void rope_cuda(const RopeArgs& args, CudaStream stream) {
  const DType dtype = cuda::cuda_type_of("rope_cuda", {{"x", args.x}, {"y", args.y}});
  PLIMSOLL_CHECK(args.table && args.table.dtype == DType::kF32,
                 "rope_cuda: the table must be present and f32");
  PLIMSOLL_CHECK(
      args.N % args.D == 0,
      "rope_cuda: the number of columns must be a multiple of the head size, but they are {} and {}", args.N,
      args.D);
  cuda::with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int kN = cuda::kPack<T>;
    const bool packs =
        args.D / 2 % kN == 0 && cuda::aligned_to_packs({args.x.data, args.table.data, args.y.data});
    packs ? cuda::launch_rope<T, kN>(args, stream) : cuda::launch_rope<T, 1>(args, stream);
  });
}

}  // namespace plimsoll
