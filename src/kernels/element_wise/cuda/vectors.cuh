// Element access for CUDA kernels of all families: packs of up to 16 bytes, conversion to and from fp32
// registers, and checks that turn the types of a call's views into C++ types. Device code and the host code
// that launches it; only for .cu files. Thread-safe: no state.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/check.h"
#include "base/view.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/operands.h"

namespace plimsoll::cuda {

// N elements of type T as words of 32 bits, as they are stored in memory. A single 16-bit element is in the low half of its
// word.
template <typename T, int N>
struct Raw {
  static constexpr int kBytes = static_cast<int>(sizeof(T)) * N;
  static constexpr int kWords = (kBytes + 3) / 4;
  uint32_t word[kWords];
};

// The number of elements in a pack, which has 16 bytes.
template <typename T>
inline constexpr int kPack = static_cast<int>(16 / sizeof(T));

// Loads N adjacent elements. Requires: p is aligned to their size in bytes, or to 16 bytes if they have more.
template <typename T, int N>
__device__ __forceinline__ Raw<T, N> load_raw(const T* p) {
  Raw<T, N> raw;
  if constexpr (Raw<T, N>::kBytes == 2) {
    raw.word[0] = *reinterpret_cast<const uint16_t*>(p);
  } else if constexpr (Raw<T, N>::kBytes == 4) {
    raw.word[0] = *reinterpret_cast<const uint32_t*>(p);
  } else if constexpr (Raw<T, N>::kBytes == 8) {
    const uint2 words = *reinterpret_cast<const uint2*>(p);
    raw.word[0] = words.x;
    raw.word[1] = words.y;
  } else {
    static_assert(Raw<T, N>::kBytes % 16 == 0);
#pragma unroll
    for (int i = 0; i < Raw<T, N>::kWords; i += 4) {
      const uint4 words = reinterpret_cast<const uint4*>(p)[i / 4];
      raw.word[i] = words.x;
      raw.word[i + 1] = words.y;
      raw.word[i + 2] = words.z;
      raw.word[i + 3] = words.w;
    }
  }
  return raw;
}

template <typename T, int N>
__device__ __forceinline__ void store_raw(T* p, const Raw<T, N>& raw) {
  if constexpr (Raw<T, N>::kBytes == 2) {
    *reinterpret_cast<uint16_t*>(p) = static_cast<uint16_t>(raw.word[0]);
  } else if constexpr (Raw<T, N>::kBytes == 4) {
    *reinterpret_cast<uint32_t*>(p) = raw.word[0];
  } else if constexpr (Raw<T, N>::kBytes == 8) {
    *reinterpret_cast<uint2*>(p) = make_uint2(raw.word[0], raw.word[1]);
  } else {
#pragma unroll
    for (int i = 0; i < Raw<T, N>::kWords; i += 4) {
      reinterpret_cast<uint4*>(p)[i / 4] =
          make_uint4(raw.word[i], raw.word[i + 1], raw.word[i + 2], raw.word[i + 3]);
    }
  }
}

// Returns the two 16-bit elements of a word as floats, the element at the lower address first.
template <typename T>
__device__ __forceinline__ float2 widen(uint32_t word) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
  } else {
    static_assert(std::is_same_v<T, __half>);
    const __half2_raw halves{static_cast<uint16_t>(word), static_cast<uint16_t>(word >> 16)};
    return __half22float2(__half2(halves));
  }
}

// Rounds both floats to nearest, ties to even, and returns them in one word.
template <typename T>
__device__ __forceinline__ uint32_t narrow_pair(float low, float high) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162_raw halves = __floats2bfloat162_rn(low, high);
    return static_cast<uint32_t>(halves.x) | static_cast<uint32_t>(halves.y) << 16;
  } else {
    static_assert(std::is_same_v<T, __half>);
    const __half2_raw halves = __floats2half2_rn(low, high);
    return static_cast<uint32_t>(halves.x) | static_cast<uint32_t>(halves.y) << 16;
  }
}

template <typename T, int N>
__device__ __forceinline__ void unpack(const Raw<T, N>& raw, float (&x)[N]) {
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = __uint_as_float(raw.word[i]);
  } else if constexpr (N == 1) {
    x[0] = widen<T>(raw.word[0]).x;
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const float2 pair = widen<T>(raw.word[i / 2]);
      x[i] = pair.x;
      x[i + 1] = pair.y;
    }
  }
}

template <typename T, int N>
__device__ __forceinline__ Raw<T, N> pack(const float (&x)[N]) {
  Raw<T, N> raw;
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int i = 0; i < N; ++i) raw.word[i] = __float_as_uint(x[i]);
  } else if constexpr (N == 1) {
    raw.word[0] = narrow_pair<T>(x[0], 0.0f);
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 2) raw.word[i / 2] = narrow_pair<T>(x[i], x[i + 1]);
  }
  return raw;
}

template <typename T, int N>
__device__ __forceinline__ void load_floats(const T* p, float (&x)[N]) {
  unpack<T, N>(load_raw<T, N>(p), x);
}
template <typename T, int N>
__device__ __forceinline__ void store_floats(T* p, const float (&x)[N]) {
  store_raw<T, N>(p, pack<T, N>(x));
}

// An operand whose floating-point type is known only at run time. It is meant for small operands such as biases and gains, which are read
// from the cache. All threads of a launch take the same branch.
struct AnyFloats {
  const void* data = nullptr;
  DType dtype = DType::kF32;

  template <int N>
  __device__ __forceinline__ void load(int64_t i, float (&x)[N]) const {
    if (dtype == DType::kF32) {
      load_floats<float, N>(static_cast<const float*>(data) + i, x);
    } else if (dtype == DType::kBF16) {
      load_floats<__nv_bfloat16, N>(static_cast<const __nv_bfloat16*>(data) + i, x);
    } else {
      load_floats<__half, N>(static_cast<const __half*>(data) + i, x);
    }
  }
  __device__ __forceinline__ const void* address(int64_t i) const {
    return static_cast<const char*>(data) + i * (dtype == DType::kF32 ? 4 : 2);
  }
  // Loads N elements of the operand as floats, or returns zeros if the operand is absent.
  template <int N>
  __device__ __forceinline__ void load_or_zero(int64_t i, float (&x)[N]) const {
    if (data != nullptr) return load<N>(i, x);
#pragma unroll
    for (int j = 0; j < N; ++j) x[j] = 0.0f;
  }
  __device__ __forceinline__ float at(int64_t i) const {
    float x[1];
    load<1>(i, x);
    return x[0];
  }
};

// A destination of any floating-point type, which is written one element at a time.
struct AnyFloatsOut {
  void* data = nullptr;
  DType dtype = DType::kF32;

  __device__ __forceinline__ float at(int64_t i) const {
    if (dtype == DType::kF64) return static_cast<float>(static_cast<const double*>(data)[i]);
    return AnyFloats{data, dtype}.at(i);
  }
  __device__ __forceinline__ void store(int64_t i, float value) const {
    if (dtype == DType::kF32) {
      static_cast<float*>(data)[i] = value;
    } else if (dtype == DType::kBF16) {
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
    } else if (dtype == DType::kF16) {
      static_cast<__half*>(data)[i] = __float2half_rn(value);
    } else {
      static_cast<double*>(data)[i] = static_cast<double>(value);
    }
  }
};

// A number in device memory whose type, f32 or f64, is known only at run time.
struct Scalar {
  void* data = nullptr;
  bool is_f64 = false;

  __device__ __forceinline__ double get() const {
    return is_f64 ? *static_cast<const double*>(data) : static_cast<double>(*static_cast<const float*>(data));
  }
  __device__ __forceinline__ void set(double value) const {
    if (is_f64) {
      *static_cast<double*>(data) = value;
    } else {
      *static_cast<float*>(data) = static_cast<float>(value);
    }
  }
};

// An integer (i32 or i64) that a kernel reads from device memory. If the address is null, it is the number `otherwise`, which the host
// passes.
struct Integer {
  const void* data = nullptr;
  bool is_i64 = false;
  int64_t otherwise = 0;

  __device__ __forceinline__ int64_t get() const {
    if (data == nullptr) return otherwise;
    return is_i64 ? *static_cast<const int64_t*>(data)
                  : static_cast<int64_t>(*static_cast<const int32_t*>(data));
  }
};

// States whether a gradient is added to its destination or overwrites it. The kernel reads the flag from device memory, so that a captured
// CUDA graph can be replayed with another value. If the address of the flag is null, `otherwise` decides.
struct AddFlag {
  const int32_t* flag = nullptr;
  bool otherwise = false;

  __device__ __forceinline__ bool get() const { return flag != nullptr ? *flag != 0 : otherwise; }
};
inline AddFlag add_flag(const int32_t* flag, Accumulate otherwise) {
  return {flag, otherwise == Accumulate::kAdd};
}

inline AnyFloats any_floats(const ConstView& view) {
  return {view.data, view.dtype};
}
inline AnyFloatsOut any_floats_out(const View& view) {
  return {view.data, view.dtype};
}

// Returns the view as a Scalar. Errors: kInternal unless the view is present and f32 or f64.
inline Scalar scalar_of(const char* kernel, const char* name, const ConstView& view) {
  PLIMSOLL_CHECK(view && (view.dtype == DType::kF32 || view.dtype == DType::kF64),
                 "{}: {} must be present and f32 or f64", kernel, name);
  return {const_cast<void*>(view.data), view.dtype == DType::kF64};
}

inline bool has_cuda_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

// Checks that operands are present and have one of the types f32, bf16 and f16; the types of different operands may differ. Errors:
// kInternal if not.
inline void check_cuda_operands(const char* kernel, std::initializer_list<Operand> operands) {
  for (const Operand& operand : operands) {
    PLIMSOLL_CHECK(operand.view || operand.presence == Operand::Presence::kOptional,
                   "{}: operand {} is missing", kernel, operand.name);
    PLIMSOLL_CHECK(!operand.view || has_cuda_type(operand.view.dtype),
                   "{}: operand {} must be f32, bf16 or f16, but is {}", kernel, operand.name,
                   dtype_name(operand.view.dtype));
  }
}

// Checks the operands as check_cuda_operands() does, and returns the type that all of them share. Errors: kInternal
// if they differ.
inline DType cuda_type_of(const char* kernel, std::initializer_list<Operand> operands) {
  check_cuda_operands(kernel, operands);
  const DType dtype = operands.begin()->view.dtype;
  for (const Operand& operand : operands) {
    PLIMSOLL_CHECK(!operand.view || operand.view.dtype == dtype,
                   "{}: all operands must have one type, but operand {} is {} and the first operand is {}",
                   kernel, operand.name, dtype_name(operand.view.dtype), dtype_name(dtype));
  }
  return dtype;
}

// Calls body with a default value of the C++ type with which CUDA code represents this element type.
template <class Body>
void with_cuda_type(DType dtype, const Body& body) {
  if (dtype == DType::kF32) return body(float{});
  if (dtype == DType::kBF16) return body(__nv_bfloat16{});
  PLIMSOLL_CHECK(dtype == DType::kF16, "CUDA kernels support f32, bf16 and f16 elements, not {}",
                 dtype_name(dtype));
  return body(__half{});
}

// Returns true if all addresses are aligned to 16 bytes. Null addresses count as aligned.
inline bool aligned_to_packs(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) return false;
  }
  return true;
}

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace plimsoll::cuda
